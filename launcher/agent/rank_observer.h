// SPDX-License-Identifier: Apache-2.0
// Reads a rank's TrainingPage, and how much memory and processor it uses.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/observe/training/training_page.h"
#include "launcher/protocol/observation.h"
#include "launcher/system/sealed_memory.h"

namespace rueda {

// Purpose: tells of one rank what it has not told before, in messages of bounded length. Owned by the agent's
// thread; lives as long as the rank's history is wanted, which may be longer than the rank.
class RankObserver {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit RankObserver(int rank) : rank_(rank) {}

  // The process has sent another page; what it had told of the one before is over.
  void use(SealedMemory page);
  // Null: there is none.
  const std::shared_ptr<const SealedMemory>& page() const { return page_; }
  // The last failure of an operation of the rank, and the last loss of another rank. It has no words and
  // times of more than half a minute before `now`.
  TrainingFailure recent_failure(Time now) const;
  // Looks at the page, and at `process` if that is not 0.
  void look(pid_t process, Time now);
  bool has_more() const { return !spans_.empty() || points_ > 0 || !routes_.empty() || is_new_; }
  // Call it while has_more().
  agents::Observed take();

 private:
  void read_page(Time now);
  void note_routes(const std::vector<CountedRoute>& routes, Time now);

  int rank_;
  std::shared_ptr<const SealedMemory> page_;
  std::uint64_t spans_from_ = 0;
  std::vector<std::uint64_t> points_from_;  // by curve
  agents::Observed state_;                  // without history
  std::deque<agents::Observed::Span> spans_;
  std::deque<agents::Observed::Curve> curves_;  // with points that have not been told
  std::size_t points_ = 0;                      // of all of them
  std::deque<CountedRoute> routes_;             // that have not been told
  struct ToldPlans {
    std::vector<std::uint64_t> counts;  // by route
    std::optional<Time> at;
  };
  ToldPlans told_plans_;
  bool is_new_ = false;                // the state
  std::optional<Time> usage_read_at_;  // of its process
  std::optional<Time> told_at_;        // the last time
};

}  // namespace rueda
