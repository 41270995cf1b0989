// SPDX-License-Identifier: Apache-2.0
// Rank 0's part: it decides when ready tensors are called.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "core/control/planner.h"

namespace rueda {

using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// Purpose: holds tensors that every rank has until they are called. A tensor is called at once unless others
// are on their way (reported by some rank, not by all); then it lingers for company, `linger` at most or
// until the fusion threshold is reached. Owned by the Negotiator of rank 0.
class Caller {
 public:
  Caller(Planner planner, Duration linger, std::int64_t fusion_threshold)
      : planner_(std::move(planner)), linger_(linger), fusion_threshold_(fusion_threshold) {}

  void ready(const Request& request, Time now);
  void refuse(const std::string& name, Status status);

  // The Plans that are due, in order.
  std::vector<Plan> call(Time now, bool others_on_their_way);

  bool idle() const { return ready_.empty() && refused_.empty(); }
  // When call() will have something to say even if nothing else happens.
  std::optional<Time> due() const;

 private:
  Planner planner_;
  Duration linger_;
  std::int64_t fusion_threshold_;
  std::vector<Request> ready_;
  std::int64_t ready_bytes_ = 0;
  Time first_ready_{};
  std::vector<Plan> refused_;
};

}  // namespace rueda
