// SPDX-License-Identifier: Apache-2.0
// The Plans that a rank has to carry out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/time.h"
#include "core/engine/backend.h"
#include "core/engine/submissions/work_failure.h"
#include "core/observe/observer.h"

namespace rueda {

// Purpose: keeps the Plans that have been called until there is room; starts a Work for each, steps it, and
// completes its entries. A Work that fails is abandoned and runs to its end. It uses its tensors until then.
// Its entries complete with the message of the Abort that rank 0 sends to all. A Work that gave up because of
// another rank also completes with the Abort's message. Owned by the ProgressEngine, whose thread calls it.
class RunningWorks {
 public:
  using Backends = std::vector<std::unique_ptr<Backend>>;
  struct Callbacks {
    // A Plan is over here. It has no entries where this rank is no member.
    std::function<void(const Plan& plan, std::span<Entry> entries, const Status& status)> complete;
    // Here; it is to be aborted.
    std::function<void(const Plan& plan, const WorkFailure& failure)> failed;
  };

  // At most so many at a time. All else outlives this.
  RunningWorks(const Backends& backends, std::size_t most, Observer& observer, Callbacks callbacks)
      : backends_(backends), most_(most), observer_(observer), callbacks_(std::move(callbacks)) {}

  void add(Plan&& plan, std::vector<Entry>&& entries);
  // Starts the Plans that have room, in order. Then steps each Work in turn, while there is something to do
  // and not for long. Returns whether anything moved.
  bool step(Time now);
  // That Plan has failed on some rank. If it is over here it keeps its result.
  void abort(std::uint64_t plan, const Status& status);
  // The job cannot go on.
  void end(const Status& status);

  bool empty() const { return called_.empty() && running_.empty(); }
  bool running() const { return !running_.empty(); }
  // Calls visit(plan, since) for each running Plan. Neither it nor an earlier Plan has moved since that time:
  // a Plan may have to wait for earlier ones.
  template <class Visit>
  void for_unmoved(Visit visit) const {
    Time since{};
    for (const Called& running : running_) visit(running.plan, since = std::max(since, running.moved));
  }
  // Names the phase of a Plan that runs here; nothing if that Plan does not run here.
  std::optional<std::string_view> phase_of(std::uint64_t plan) const;
  // Names the phase of the oldest Plan that runs here. Only if running().
  std::string_view phase() const;
  // Whether everything that they wait for can ring the doorbell.
  bool ring_doorbell() const;

 private:
  // From its arrival to the end of its Work.
  struct Called {
    Plan plan;
    std::vector<Entry> entries;  // of this rank, for its tensors
    Status aborted;              // why it has failed on some rank
    std::unique_ptr<Work> work;  // null: not made yet, or over
    bool done = false;           // and the results are right
    bool failed = false;         // here, and it has been said
    Time moved{};                // last
  };

  bool can_start() const;
  void start(Time now);
  void fail(Called& running, const WorkFailure& failure);
  void finish(Called& running);
  static std::string_view phase(const Called& running);

  const Backends& backends_;
  std::size_t most_;
  Observer& observer_;
  Callbacks callbacks_;
  // Lists: Works keep references to their Plan and entries.
  std::list<Called> called_;  // have no Work yet; in the order of their numbers
  std::list<Called> running_;
};

}  // namespace rueda
