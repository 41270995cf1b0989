// SPDX-License-Identifier: Apache-2.0
// How fast the job goes, whether its ranks wait for one of them, and the line that tells of it in words.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/observe/training/usual_pauses.h"
#include "launcher/view/slow_cards.h"
#include "launcher/view/step_times.h"

namespace rueda {

// Purpose: the mean time of the last 100 steps of one rank. Pure. Owned by the main thread of the supervisor.
class Pace {
 public:
  // A span of this step of that rank begins. A change of the rank begins anew.
  void add(int rank, std::uint64_t step, std::int64_t begin_ns);
  // Ranks end: the mean is this one until ten steps more are there.
  void hold(double step_ms);
  bool is_held() const { return held_ms_.has_value(); }
  double step_ms() const;  // 0: unknown

 private:
  struct Begin {
    std::uint64_t step = 0;
    std::int64_t at_ns = 0;
  };

  int rank_ = -1;
  std::deque<Begin> begins_;  // of the last steps
  std::optional<double> held_ms_;
};

// A rank that runs, and what it does.
struct PresentPhase {
  int rank = 0;
  Phase phase = Phase::other;
  std::uint64_t step = 0;
  double seconds = 0;  // so long
  UsualPauses pauses{};
  double since_step = std::numeric_limits<double>::infinity();  // since its last step has ended
};

// Ranks wait, and no step ends.
struct Standstill {
  double seconds = 0;  // the longest wait
  bool is_stall = false;
  bool is_pause = false;                // the culprit evaluates or saves
  std::optional<PresentPhase> culprit;  // the others wait for it; nothing: all wait
};

// Seconds since any rank has ended a step.
double since_last_step(std::span<const PresentPhase> ranks);
// The length of a wait that is no part of usual steps; `step_ms` 0: of a job without steps so far.
double notable_wait(double step_ms);
// And of one that is a stall.
double stalled_wait(double step_ms);

// Nothing where all go on, and where no rank waits long. Others may wait for ranks that evaluate or save:
// that is a stall only beyond its own limit. `counts_alike`: all ranks have counted the same steps. Pure.
std::optional<Standstill> standstill_of(std::span<const PresentPhase> ranks, double step_ms,
                                        bool counts_alike);

// Numbers as the page shows them.
struct Progress {
  std::uint64_t step = 0;
  std::uint64_t total = 0;   // 0: unknown
  double samples_per_s = 0;  // 0: unknown
  double step_ms = 0;        // 0: unknown
  double wait_ms = 0;        // of a step, for others
  double ends_at = 0;        // Unix seconds; 0: unknown
  bool operator==(const Progress&) const = default;
};

// A rank, or some, for which the others wait.
struct Culprit {
  int rank = -1;  // -1: none
  std::string phase;
  std::string name{};  // empty: "rank", and the number
  double late_ms = 0;  // of a step
};

// `waiting`: a step takes long, as some rank does not come. After a while that is a stall. `failed`: an
// operation has, and no step has ended since.
enum class LineState { starting, running, waiting, stalled, failed, ended, lost };

struct LineFacts {
  LineState state = LineState::starting;
  std::string words;  // of the end, or what a start waits for
  Progress progress;
  Culprit culprit;         // it makes steps longer, or, of a job that waits or is stalled, stops it
  double still_s = 0;      // of a job that waits or is stalled: the longest wait
  double pause_s = 0;      // of a job that waits: the culprit evaluates or saves since then; 0: it does not
  std::string stall{};     // words of operations that wait; empty: none
  double now_at = 0;       // Unix seconds
  bool has_steps = false;  // ranks tell their steps
  LastingSlowCards slow_cards;
};

std::string name_of(LineState state);
// "running, step 12,340 of 20,000, 31.2 samples/s, ends at 16:40; 0.8 ms a step waiting for rank 3 (data)"
std::string in_words(const LineFacts& facts);
std::string with_commas(std::uint64_t number);

}  // namespace rueda
