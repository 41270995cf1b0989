// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/host_values.h"

#include <algorithm>

namespace rueda {

const std::string* HostValues::get(int number, const std::string& key) {
  const auto found = values_.find(key);
  if (found != values_.end()) return &found->second;
  const std::pair request(number, key);
  if (std::ranges::find(unanswered_, request) == unanswered_.end()) unanswered_.push_back(request);
  return nullptr;
}

std::vector<int> HostValues::put(const std::string& key, const std::string& value) {
  std::vector<int> answered;
  if (value.empty()) {
    values_.erase(key);
    return answered;
  }
  values_[key] = value;
  std::erase_if(unanswered_, [&](const auto& request) {
    if (request.second == key) answered.push_back(request.first);
    return request.second == key;
  });
  return answered;
}

}  // namespace rueda
