// SPDX-License-Identifier: Apache-2.0
#include "core/control/messages/call_in_words.h"

#include <atomic>

namespace rueda {
namespace {

std::atomic<DescribeCall> front_end{nullptr};

}  // namespace

void describe_calls_by(DescribeCall describe) { front_end.store(describe); }

std::optional<CallInWords> call_in_words(const Request& request) {
  const DescribeCall describe = front_end.load();
  if (request.signature == 0 || describe == nullptr) return std::nullopt;
  return describe(request);
}

}  // namespace rueda
