// SPDX-License-Identifier: Apache-2.0
#include "core/control/caller.h"

#include <utility>

namespace rueda {

void Caller::ready(const Request& request, Time now) {
  if (ready_.empty()) first_ready_ = now;
  ready_.push_back(request);
  ready_bytes_ += element_count(request.shape) * static_cast<std::int64_t>(size_of(request.dtype));
}

void Caller::refuse(const std::string& name, Status status) {
  refused_.push_back(planner_.refuse(name, std::move(status)));
}

std::vector<Plan> Caller::call(Time now, bool others_on_their_way) {
  std::vector<Plan> plans = std::exchange(refused_, {});
  const bool lingers =
      others_on_their_way && now < first_ready_ + linger_ && ready_bytes_ < fusion_threshold_;
  if (!ready_.empty() && !lingers) {
    for (Plan& plan : planner_.fuse(ready_)) plans.push_back(std::move(plan));
    ready_.clear();
    ready_bytes_ = 0;
  }
  return plans;
}

std::optional<Time> Caller::due() const {
  if (ready_.empty()) return std::nullopt;
  return first_ready_ + linger_;
}

}  // namespace rueda
