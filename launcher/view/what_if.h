// SPDX-License-Identifier: Apache-2.0
// How much faster the job would be without the lateness of one rank.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "launcher/view/step_times.h"

namespace rueda {

struct WhatIf {
  int rank = 0;
  double faster_percent = 0;  // more steps in the same time
};

// Replays the steps since `since_step`, but 100 at least and 500 at most: pauses may be rare. Each rank does
// its own work, arrives, waits for the last one, and goes on after its moves. A second time the own times of
// `rank` are the medians of the others'. Pure.
WhatIf without_lateness(const std::deque<CommonWait>& waits, int rank, std::uint64_t since_step);

}  // namespace rueda
