// SPDX-License-Identifier: Apache-2.0
// The times of each rank's steps, put together from the spans of all ranks.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
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
  std::array<std::int64_t, kPhaseCount> phase_ns{};  // of these, in each phase
};

// One wait of all ranks: the results of a reduction, mostly one in a step.
struct CommonWait {
  std::uint64_t step = 0;
  std::vector<WaitPart> parts;  // by rank
};

// Purpose: finds those waits of all ranks that belong together, by the step and by their order in it. It
// splits them for the page. Pure; time is passed in. Owned by the main thread of the supervisor.
class StepTimes {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // So many ranks take part: a wait is complete with them, or 2 s after its first part has come.
  void expect(int ranks) { expected_ = ranks; }
  // The next span of a rank. Those of a rank come in their order.
  void add(int rank, const RankSpan& span, Time now);
  // A rank has ended: it is not waited for any more.
  void act(Time now);

  // Those that can be shown since the last call.
  std::vector<ShownSpan> take_shown() { return std::exchange(shown_, {}); }
  // Complete ones, in the order of steps; the oldest go.
  const std::deque<CommonWait>& waits() const { return waits_; }
  std::uint64_t completed() const { return completed_; }  // so many so far

 private:
  struct Rank {
    std::uint64_t step = 0;
    std::uint32_t waits = 0;  // so far in this step
    bool has_waited = false;
    std::int64_t since_ns = 0;  // the end of its last wait
    std::array<std::int64_t, kPhaseCount> phase_ns{};
  };
  struct Pending {
    Time since{};
    int parts = 0;
    CommonWait wait;
  };
  using Key = std::pair<std::uint64_t, std::uint32_t>;  // step, number in it

  void add_wait(int rank, Rank& about, const RankSpan& span, Time now);
  void complete(Pending pending);

  int expected_ = 1;
  std::map<int, Rank> ranks_;
  std::map<Key, Pending> pending_;
  std::vector<ShownSpan> shown_;
  std::deque<CommonWait> waits_;
  std::uint64_t completed_ = 0;
};

}  // namespace rueda
