// SPDX-License-Identifier: Apache-2.0
// The times of each rank's steps, put together from the spans of all ranks.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "rueda/training.h"

namespace rueda {

// A span of a rank, on rank 0's clock.
struct RankSpan {
  Phase phase = Phase::other;
  std::uint64_t step = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

// The same for the page: a `wait` lasts until the last rank's has begun; bytes move in the rest of it.
// Without one of the ranks all of it is a wait.
struct ShownSpan {
  int rank = 0;
  RankSpan span;
  bool moves = false;
};

std::string_view name_of(Phase phase);

// A rank's part in one wait of all ranks for each other.
struct WaitPart {
  static constexpr std::int64_t kUnknown = -1;

  bool is_there = false;
  std::int64_t arrival_ns = 0;                       // its wait begins
  std::int64_t release_ns = 0;                       // and ends
  std::int64_t own_ns = kUnknown;                    // from the end of its wait before to the arrival
  std::int64_t lag_ns = 0;                           // its wait before has ended so much later than others'
  std::array<std::int64_t, kPhaseCount> phase_ns{};  // of the own time, in each phase

  // The arrival, as if it had got the results before when the others did: by this a rank is late.
  std::int64_t due_ns() const { return arrival_ns - lag_ns; }
};

// One wait of all ranks for the results of reductions, or all such waits of a step. Then own times and phases
// are sums, and a rank arrives after the first one by the sum of its delays. So do its moves add up.
struct CommonWait {
  std::uint64_t step = 0;
  std::vector<WaitPart> parts;  // by rank
  std::int64_t waited_ns = 0;   // the last due arrival less the median of the others
};

// The middle of some numbers, with its neighbours: the median without any one of them follows.
struct Middle {
  std::size_t count = 0;
  std::int64_t first = 0, last = 0;
  std::int64_t below = 0, at = 0,
               above = 0;  // one after another in their order; `at` has as many on each side

  double median() const;
  // Without one of the numbers; of a single one itself.
  std::int64_t median_without(std::int64_t one) const;
};

Middle middle_of(std::vector<std::int64_t> numbers);
std::int64_t last_arrival(const CommonWait& wait);
// The middle of the due arrivals.
Middle arrivals_of(const CommonWait& wait);
std::vector<Middle> arrivals_of(const std::deque<CommonWait>& waits);

// Purpose: finds those waits of all ranks that belong together, by the step and by their order in it. It
// splits them for the page. Each rank's spans follow one another; after a gap the rest of the step is left
// out. Waits of other groups of ranks are left out, too: their ends are apart. Pure; time is passed in. Owned
// by the main thread of the supervisor.
class StepTimes {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // These take part: a wait is complete with them, or 2 s after its first part has come. A rank that has
  // missed several waits is expected again from its next one on.
  void expect(std::set<int> ranks);
  void expect(int ranks);  // those from 0 on
  // The next span of a rank. Those of a rank come in their order.
  void add(int rank, const RankSpan& span, Time now);
  // A rank has ended, at a time of rank 0's clock. It was to take part in waits that had begun before.
  void note_end(int rank, std::int64_t at_ns);
  // One that belongs to no step.
  void show_alone(int rank, const RankSpan& span) { shown_.push_back({rank, span}); }
  // Some waits may be complete by now.
  void act(Time now);
  // Times are of another clock from now on.
  void begin_anew();

  // Those that can be shown since the last call.
  std::vector<ShownSpan> take_shown() { return std::exchange(shown_, {}); }
  // One for each complete step, in the order of steps; the oldest go.
  const std::deque<CommonWait>& waits() const { return waits_; }
  std::uint64_t completed() const { return completed_; }  // so many so far

 private:
  struct Rank {
    std::uint64_t step = 0;
    std::uint32_t waits = 0;   // so far in this step
    std::uint32_t missed = 0;  // waits of others, one after another
    bool has_spans = false;
    bool has_waited = false;
    bool skips_step = false;    // some of its spans are not there
    std::int64_t heard_ns = 0;  // the end of its last span
    std::int64_t since_ns = 0;  // the end of its last wait
    std::optional<std::int64_t> ended_ns;
    std::array<std::int64_t, kPhaseCount> phase_ns{};
  };
  struct Pending {
    Time since{};
    int parts = 0;
    CommonWait wait;
  };
  using Key = std::pair<std::uint64_t, std::uint32_t>;  // step, number in it

  void begin_step(Rank& about, const RankSpan& span);
  void look_for_gap(Rank& about, const RankSpan& span);
  void add_wait(int rank, Rank& about, const RankSpan& span, Time now);
  void forget_from(std::uint64_t step, std::int64_t until_ns);
  bool is_awaited(int rank) const;
  bool has_all(const Pending& pending) const;
  void note_missing(const Pending& pending);
  bool lacks_one(const CommonWait& wait) const;
  void show(const CommonWait& wait, bool splits);
  void complete(Pending pending);
  void gather(CommonWait wait);
  void keep(CommonWait wait);

  std::set<int> expected_;
  std::map<int, Rank> ranks_;
  std::map<Key, Pending> pending_;
  std::vector<ShownSpan> shown_;
  std::deque<CommonWait> waits_;
  std::optional<CommonWait> present_;  // the latest step, which may have more waits
  std::uint64_t completed_ = 0;
};

}  // namespace rueda
