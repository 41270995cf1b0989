// SPDX-License-Identifier: Apache-2.0
// Whether the ranks of a job wait for one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "launcher/view/step_times.h"

namespace rueda {

// A rank that runs, and what it does.
struct PresentPhase {
  int rank = 0;
  Phase phase = Phase::other;
  std::uint64_t step = 0;
  double seconds = 0;  // so long
};

// Ranks wait, and no step ends.
struct Standstill {
  double seconds = 0;  // the longest wait
  bool is_stall = false;
  std::optional<PresentPhase> culprit;  // the others wait for it; nothing: all wait
};

// The length of a wait that is no part of usual steps; `step_ms` 0: of a job without steps so far.
double notable_wait(double step_ms);
// And of one that is a stall.
double stalled_wait(double step_ms);

// Nothing where all go on, where no rank waits long, and while some evaluate or save: others may wait for
// that. `counts_alike`: all ranks have counted the same steps. Pure.
std::optional<Standstill> standstill_of(std::span<const PresentPhase> ranks, double step_ms,
                                        bool counts_alike);

}  // namespace rueda
