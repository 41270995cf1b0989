// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/value_exchange.h"

namespace rueda {

void ValueExchange::put(const agents::Put& put) {
  if (put.value.empty()) {
    values_.erase(put.key);
  } else if (values_.size() < kMostValues || values_.contains(put.key)) {
    values_[put.key] = put.value;
  } else {
    return;
  }
  agents_.tell_all(put);
}

void ValueExchange::enter_barrier(int host) {
  in_barrier_.insert(host);
  if (in_barrier_.size() < hosts_) return;
  in_barrier_.clear();
  agents_.tell_all(agents::BarrierOut{});
}

void ValueExchange::welcome(int host) {
  for (const auto& [key, value] : values_) agents_.tell(host, agents::Put{key, value});
}

}  // namespace rueda
