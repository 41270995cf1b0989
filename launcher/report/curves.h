// SPDX-License-Identifier: Apache-2.0
// Makes long curves readable: a moving mean over values that jump from step to step, and no more points than
// a screen shows.
#pragma once

#include <cstddef>
#include <vector>

#include "launcher/report/chart.h"

namespace rueda::report {

// At most about `most` points, which keep the highest and the lowest of each stretch, the first and the last.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, std::size_t most);

// The centered mean over 2 * reach + 1 points, over fewer at the ends, so that it starts and ends where the
// curve does. In linear time.
std::vector<ChartPoint> smoothed(const std::vector<ChartPoint>& points, std::size_t reach);

}  // namespace rueda::report
