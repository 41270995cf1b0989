// SPDX-License-Identifier: Apache-2.0
// Rank 0's part: it decides when ready tensors are called.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/control/cache_keeper.h"
#include "core/control/planner.h"

namespace rueda {

class Autotuner;

// Purpose: holds tensors that every rank has until they are called. A tensor is called at once unless others
// are on their way (reported by some rank, not by all); then it lingers for company, `linger` at most or
// until the fusion threshold is reached. Tensors of a group wait for the whole group, and one bad member
// fails it. Owned by the Negotiator of rank 0.
class Caller {
 public:
  struct Settings {
    Duration linger{};
    std::int64_t fusion_threshold = 0;
    std::int64_t cache_least = 0;  // see CacheKeeper
  };

  Caller(Planner planner, Settings settings);
  ~Caller();
  // From now on its knobs are in force, as they are when a request becomes ready.
  void tune(std::unique_ptr<Autotuner> tuner);
  Autotuner* tuner() const { return tuner_.get(); }

  void ready(ReadyRequest ready, Time now);
  // A member of a group is refused when all of them have come, with the others; alone: at once.
  void refuse(SharedRequest request, Status status);
  void refuse_alone(SharedRequest request, Status status);
  // The members that wait for others: the ranks do not agree on what the group is.
  void refuse_group(ProcessSetId set, const std::string& name, const Status& status);

  // The Plans that are due, in order.
  std::vector<Plan> call(Time now, bool others_on_their_way);
  // The Plan of an operation that moves no data.
  Plan decide(SharedRequest request, std::int64_t result);
  // Every rank has departed: what was never submitted will not come.
  void give_up_groups();
  // Its ranks end by themselves what they had in flight.
  void forget_set(ProcessSetId set);

  bool idle() const { return ready_.empty() && refused_.empty() && groups_.empty(); }
  // When call() will have something to say even if nothing else happens.
  std::optional<Time> due() const;

 private:
  struct Group {
    std::vector<ReadyRequest> requests;
    Status status;
  };

  // Whether the request waits for others of its group; the last one takes all of them out.
  void gather(ReadyRequest ready, Status status, Time now);
  void add_ready(ReadyRequest ready, Time now);

  std::unique_ptr<Autotuner> tuner_;  // may be none
  Planner planner_;
  Settings settings_;
  CacheKeeper keeper_;
  std::vector<ReadyRequest> ready_;
  std::int64_t ready_bytes_ = 0;
  Time first_ready_{};
  std::vector<Plan> refused_;
  std::map<std::pair<ProcessSetId, std::string>, Group> groups_;
};

}  // namespace rueda
