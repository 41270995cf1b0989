// SPDX-License-Identifier: Apache-2.0
// Rank 0's part: it decides when ready tensors are called.
#pragma once

#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/time.h"
#include "core/control/scheduling/cache_policy.h"
#include "core/control/scheduling/fusion_planner.h"
#include "core/control/scheduling/tuner.h"

namespace rueda {

// Purpose: holds tensors that every rank has until they are called. A tensor is called at once unless others
// are on their way (reported by some rank, not by all); then it lingers for company, `linger` at most or
// until the fusion threshold is reached. Owned by the Negotiator of rank 0.
class Coordinator {
 public:
  struct Settings {
    Duration linger{};
    std::int64_t fusion_threshold = 0;
    std::int64_t cache_least = 0;  // see CachePolicy
  };

  Coordinator(FusionPlanner planner, Settings settings);
  // From now on its parameters are in force, as they are when a request becomes ready.
  void tune(Tuner* tuner) { tuner_ = tuner; }

  // That, and the others of its group. `without`: members of its set that take part without having asked.
  void ready(const SharedRequest& request, const RankSet& without, Time now);
  // One Plan, also of a group.
  void refuse(SharedRequest request, Status status);

  // The Plans that are due, in order.
  std::vector<Plan> call(Time now, bool others_on_their_way);
  // The Plan of an operation that moves no data.
  Plan decide(SharedRequest request, std::int64_t result);

  bool idle() const { return ready_.empty() && refused_.empty(); }
  // When call() will have something to say even if nothing else happens.
  std::optional<Time> due() const;

 private:
  void add_ready(SharedRequest request, const RankSet& without);
  void call_ready(std::vector<ReadyRequest>&& ready, std::vector<Plan>& plans);
  std::vector<ReadyRequest> take_alone();

  Tuner* tuner_ = nullptr;  // may be none
  FusionPlanner planner_;
  Settings settings_;
  CachePolicy keeper_;
  std::vector<ReadyRequest> ready_;
  std::int64_t ready_bytes_ = 0;  // of those that may share a buffer
  int alone_ = 0;                 // number of the others
  Time first_ready_{};
  std::vector<Plan> refused_;
};

}  // namespace rueda
