// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/lateness.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/median.h"

namespace rueda {
namespace {

constexpr double kMilli = 1e-6;    // of nanoseconds
constexpr double kNotable = 0.01;  // of a step's own time: less is not late
constexpr double kLeastMs = 0.05;
constexpr double kBestTenth = 0.1;

// One rank, step by step.
struct Series {
  std::vector<std::uint64_t> steps;
  std::vector<std::int64_t> arrivals;
  std::vector<double> late_ms;
  std::vector<double> own_ms;
};

// What is summed up over the last steps.
struct Sums {
  std::size_t waits = 0, last = 0;
  std::array<double, kPhaseCount> phase_ms{};
};

void add_to(Series& series, std::uint64_t step, const WaitPart& part, double late_ms) {
  series.steps.push_back(step);
  series.arrivals.push_back(part.arrival_ns);
  series.late_ms.push_back(late_ms);
  series.own_ms.push_back(part.own_ns == WaitPart::kUnknown ? 0 : static_cast<double>(part.own_ns) * kMilli);
}

double mean_of(const std::vector<double>& values, std::size_t last) {
  const std::size_t count = std::min(last, values.size());
  if (count == 0) return 0;
  return std::accumulate(values.end() - static_cast<std::ptrdiff_t>(count), values.end(), 0.0) /
         static_cast<double>(count);
}

// Mean of the smallest tenth, without those that are not known.
double best_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return value <= 0; });
  std::ranges::sort(values);
  const auto tenth =
      std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(values.size()) * kBestTenth));
  values.resize(std::min(values.size(), tenth));
  return mean_of(values, values.size());
}

std::size_t bin_of(double ms) {
  return static_cast<std::size_t>(std::ranges::upper_bound(kLatenessBounds, ms) - kLatenessBounds.begin());
}

// The last steps of all ranks, and every step for the rest.
struct Gathered {
  std::vector<Series> series;
  std::vector<Sums> sums;
  std::vector<LateRank> ranks;
  double wait_ms = 0;
  std::size_t steps = 0;
};

void add_recent(Gathered& all, const CommonWait& wait, const std::vector<std::int64_t>& arrivals) {
  const std::int64_t first = arrivals.front(), last = arrivals.back();
  all.wait_ms += static_cast<double>(wait.waited_ns) * kMilli;
  for (std::size_t rank = 0; rank < wait.parts.size(); ++rank) {
    const WaitPart& part = wait.parts[rank];
    if (!part.is_there) continue;
    Sums& sums = all.sums[rank];
    ++sums.waits;
    if (part.arrival_ns == last && last > first) ++sums.last;
    for (std::size_t phase = 0; phase < sums.phase_ms.size(); ++phase)
      sums.phase_ms[phase] += static_cast<double>(part.phase_ns[phase]) * kMilli;
    ++all.ranks[rank].histogram[bin_of(static_cast<double>(part.arrival_ns - first) * kMilli)];
  }
}

double late_ms(const std::vector<std::int64_t>& arrivals, const WaitPart& part) {
  const auto own = std::ranges::lower_bound(arrivals, part.arrival_ns) - arrivals.begin();
  return static_cast<double>(part.arrival_ns - median_without(arrivals, static_cast<std::size_t>(own))) *
         kMilli;
}

Gathered gather(const std::deque<CommonWait>& waits) {
  Gathered all;
  const std::size_t recent = first_of_last_steps(waits, kRecentSteps);
  std::size_t count = 0;
  for (const CommonWait& wait : waits) count = std::max(count, wait.parts.size());
  all.series.resize(count);
  all.sums.resize(count);
  all.ranks.resize(count);
  for (std::size_t i = 0; i < waits.size(); ++i) {
    const CommonWait& wait = waits[i];
    const std::vector<std::int64_t> arrivals = sorted_arrivals(wait);
    for (std::size_t rank = 0; rank < wait.parts.size(); ++rank)
      if (const WaitPart& part = wait.parts[rank]; part.is_there)
        add_to(all.series[rank], wait.step, part, late_ms(arrivals, part));
    if (i < recent) continue;
    ++all.steps;
    add_recent(all, wait, arrivals);
  }
  return all;
}

// The phase whose time exceeds the median of the other ranks most.
Phase phase_of_excess(const std::vector<Sums>& sums, std::size_t rank) {
  Phase most = Phase::other;
  double greatest = 0;
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
    std::vector<double> others;
    for (std::size_t other = 0; other < sums.size(); ++other)
      if (other != rank && sums[other].waits > 0)
        others.push_back(sums[other].phase_ms[phase] / static_cast<double>(sums[other].waits));
    const double excess =
        sums[rank].phase_ms[phase] / static_cast<double>(sums[rank].waits) - median_or_zero(others);
    if (excess <= greatest) continue;
    greatest = excess;
    most = static_cast<Phase>(phase);
  }
  return most;
}

void find_moment(LateRank& late, const Series& series) {
  const std::size_t at = change_point(series.late_ms);
  late.since_step = series.steps[at];
  late.since_ns = series.arrivals[at];
}

}  // namespace

double median_or_zero(std::vector<double> values) {
  return values.empty() ? 0 : median_of(std::move(values));
}

std::size_t first_of_last_steps(const std::deque<CommonWait>& waits, std::size_t steps) {
  return waits.size() - std::min(waits.size(), steps);
}

// The greatest difference of the sum so far from its share of the whole sum marks the change (CUSUM). A drop
// of the mean is none: the rank has been late since the first number.
std::size_t change_point(std::vector<double> values) {
  if (values.size() < 2) return 0;
  std::vector<double> sorted = values;
  const auto high = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * 95 / 100);
  std::ranges::nth_element(sorted, high);
  for (double& value : values) value = std::min(value, *high);
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double sum = 0, lowest = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    sum += values[i] - mean;
    if (sum >= lowest) continue;
    lowest = sum;
    at = i + 1;
  }
  if (at == 0) return 0;
  const double before = (lowest + mean * static_cast<double>(at)) / static_cast<double>(at);
  const double after =
      (mean * static_cast<double>(values.size() - at) - lowest) / static_cast<double>(values.size() - at);
  return after > 2 * std::max(before, 0.0) ? at : 0;
}

Lateness lateness_of(const std::deque<CommonWait>& waits) {
  Lateness all;
  if (waits.empty()) return all;
  Gathered gathered = gather(waits);
  all.steps = gathered.steps;
  all.wait_ms = gathered.wait_ms / static_cast<double>(all.steps);
  std::vector<double> own;
  double fastest = std::numeric_limits<double>::max();
  for (std::size_t rank = 0; rank < gathered.ranks.size(); ++rank) {
    if (gathered.sums[rank].waits == 0) continue;
    own.push_back(mean_of(gathered.series[rank].own_ms, kRecentSteps));
    if (own.back() > 0) fastest = std::min(fastest, own.back());
  }
  all.own_ms = median_or_zero(own);
  for (std::size_t rank = 0, next = 0; rank < gathered.ranks.size(); ++rank) {
    const Sums& sums = gathered.sums[rank];
    if (sums.waits == 0) continue;
    LateRank& late = gathered.ranks[rank];
    const Series& series = gathered.series[rank];
    const double now = own[next++];
    late.rank = static_cast<int>(rank);
    late.late_ms = std::max(0.0, mean_of(series.late_ms, all.steps));
    late.share = static_cast<double>(sums.last) / static_cast<double>(sums.waits);
    if (now > 0) late.score_best = std::min(1.0, fastest / now);
    if (now > 0) late.score_own = std::min(1.0, best_of(series.own_ms) / now);
    if (late.late_ms > std::max(kLeastMs, kNotable * all.own_ms)) {
      late.phase = phase_of_excess(gathered.sums, rank);
      find_moment(late, series);
    }
    all.ranks.push_back(late);
  }
  std::ranges::stable_sort(all.ranks, std::ranges::greater(), &LateRank::late_ms);
  return all;
}

}  // namespace rueda
