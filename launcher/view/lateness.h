// SPDX-License-Identifier: Apache-2.0
// Which rank makes the others wait, since when, and by which phase; and when that is to be told.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "launcher/view/step_times.h"

namespace rueda {

inline constexpr std::size_t kRecentSteps = 100;
inline constexpr std::size_t kWarmUp = 5;  // first steps, which do not count
// Of arrivals after the first rank's, in ms: below 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, and more.
inline constexpr std::array<double, 9> kLatenessBounds{0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000};

// A rank in the last steps. Times are those of a step.
struct LateRank {
  int rank = 0;
  double late_ms = 0;     // mean of its arrivals less the median of the other ranks'; 0 at least
  double share = 0;       // of steps: it was the last one
  double score_best = 1;  // the fastest rank's own time, in its own
  double score_own = 1;   // the own time of its best stretches of 25 steps, in its own now
  // The first step of its lateness. It is late only where this is there: no chance makes it so, and it costs
  // a notable part of a step. Then `late_ms` is of the last steps that show it.
  std::optional<std::uint64_t> since_step{};
  double step_ms = 0;          // mean length of these steps; 0: unknown
  double wait_ms = 0;          // mean of all waits there for the last rank
  std::int64_t since_ns = 0;   // its arrival there
  bool explains = false;       // most of the others' waiting
  Phase phase = Phase::other;  // it exceeds the median of the other ranks most
  std::array<std::uint32_t, kLatenessBounds.size() + 1> histogram{};
};

struct Lateness {
  std::size_t steps = 0;        // so many are looked at
  double step_ms = 0;           // mean length of these steps; 0: unknown
  double wait_ms = 0;           // mean of the last arrival less the median of the others: they wait so long
  double own_ms = 0;            // median rank's own time
  std::vector<LateRank> ranks;  // those that are late first, the latest before others
  // The last steps waited for it, each far longer than any step before. It may be over soon.
  std::optional<LateRank> suddenly{};
};

// Of the last kRecentSteps steps; the moment and the best time of all steps that are there. The first steps
// do not count: a start takes its time. Pure.
Lateness lateness_of(const std::deque<CommonWait>& waits);

// The latest of those that count and explain most of the waiting, or the one that is suddenly late; null:
// none.
const LateRank* reason_to_wait(const Lateness& lateness, const std::function<bool(int rank)>& counts);

// Of so many steps of a lateness the phase is found: a power of two, so that late ranks share their sums.
std::size_t phase_window(std::size_t steps, std::size_t ranks);

// By wait: it was so long, and its like so rare for that rank, that it tells nothing of other steps. The line
// tells of it while it lasts.
std::vector<bool> single_pauses(const std::deque<CommonWait>& waits);

// The waits of the last steps.
std::size_t first_of_last_steps(const std::deque<CommonWait>& waits, std::size_t steps);

// The median; 0 of no values.
double median_or_zero(std::vector<double> values);

// Purpose: hears each analysis of a job, and tells of a late rank once: as soon as two analyses in a row
// agree on its moment and size. It tells again if the size has become more than twice as large, or less than
// half. A rank that has been punctual for a while is forgotten. Pure. Owned by the main thread of the
// supervisor.
class Stragglers {
 public:
  struct News {
    LateRank late;
    bool is_change = false;  // of its size
  };

  // A lateness that goes on has its old moment, also when the steps before `oldest` are forgotten.
  void keep_moments(Lateness& lateness, std::uint64_t oldest) const;
  std::vector<News> hear(const Lateness& lateness);

 private:
  struct Spell {
    LateRank before;
    std::optional<double> told_ms;
    int punctual = 0;  // analyses in a row
  };

  std::map<int, Spell> spells_;  // by rank
};

}  // namespace rueda
