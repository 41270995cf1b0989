// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/lateness.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/median.h"
#include "launcher/view/late_evidence.h"

namespace rueda {
namespace {

constexpr double kMilli = 1e-6;    // of nanoseconds
constexpr double kNotable = 0.05;  // of a step's own time: less is not late
constexpr double kLeastMs = 0.05;
constexpr double kMost = 0.5;  // of the others' waiting
constexpr double kBestTenth = 0.1;
constexpr std::size_t kStretch = 25;
constexpr std::size_t kWarmUp = 5;          // steps
constexpr std::size_t kMiddleWindow = 400;  // steps
constexpr std::size_t kUnitsAround = 4;     // of a change, in which its step is looked for
// Of what is told: analyses, and factors.
constexpr int kPunctual = 20;
constexpr double kSameSize = 1.5, kOtherSize = 2;
constexpr double kSameMoment = 3;  // steps

// One rank, step by step.
struct Series {
  std::vector<double> late_ms;
  std::vector<double> own_ms;
};

// What is summed up over the last steps.
struct Sums {
  std::size_t waits = 0, last = 0;
  std::array<double, kPhaseCount> phase_ms{};
};

void add_to(Series& series, const WaitPart& part, double late_ms) {
  series.late_ms.push_back(late_ms);
  series.own_ms.push_back(part.own_ns == WaitPart::kUnknown ? 0 : static_cast<double>(part.own_ns) * kMilli);
}

double mean_of(const std::vector<double>& values, std::size_t last) {
  const std::size_t count = std::min(last, values.size());
  if (count == 0) return 0;
  return std::accumulate(values.end() - static_cast<std::ptrdiff_t>(count), values.end(), 0.0) /
         static_cast<double>(count);
}

// Of the smallest tenth of the means of stretches, without what is not known.
double best_of(const std::vector<double>& values) {
  std::vector<double> means;
  for (std::size_t end = values.size(); end >= std::min(kStretch, values.size()) && end > 0;
       end -= std::min(end, kStretch)) {
    const std::size_t begin = end - std::min(end, kStretch);
    double sum = 0, count = 0;
    for (std::size_t i = begin; i < end; ++i) {
      sum += std::max(0.0, values[i]);
      count += values[i] > 0 ? 1 : 0;
    }
    if (count > 0) means.push_back(sum / count);
  }
  std::ranges::sort(means);
  const auto tenth =
      std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(means.size()) * kBestTenth));
  means.resize(std::min(means.size(), tenth));
  return mean_of(means, means.size());
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
    ++all.ranks[rank].histogram[bin_of(static_cast<double>(part.arrival_ns - first) * kMilli)];
  }
}

double late_ms(const std::vector<std::int64_t>& arrivals, const WaitPart& part) {
  const auto own = std::ranges::lower_bound(arrivals, part.arrival_ns) - arrivals.begin();
  return static_cast<double>(part.arrival_ns - median_without(arrivals, static_cast<std::size_t>(own))) *
         kMilli;
}

// Without the first steps, where there are others.
std::size_t first_that_counts(const std::deque<CommonWait>& waits) {
  return waits.size() > 2 * kWarmUp ? kWarmUp : 0;
}

Gathered gather(const std::deque<CommonWait>& waits) {
  Gathered all;
  const std::size_t recent = first_of_last_steps(waits, kRecentSteps);
  std::size_t count = 0;
  for (const CommonWait& wait : waits) count = std::max(count, wait.parts.size());
  all.series.resize(count);
  all.sums.resize(count);
  all.ranks.resize(count);
  for (std::size_t i = first_that_counts(waits); i < waits.size(); ++i) {
    const CommonWait& wait = waits[i];
    const std::vector<std::int64_t> arrivals = sorted_arrivals(wait);
    for (std::size_t rank = 0; rank < wait.parts.size(); ++rank)
      if (const WaitPart& part = wait.parts[rank]; part.is_there)
        add_to(all.series[rank], part, late_ms(arrivals, part));
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

// Of the waits from `first` on.
std::vector<Sums> sums_of(const std::deque<CommonWait>& waits, std::size_t first, std::size_t ranks) {
  std::vector<Sums> sums(ranks);
  for (std::size_t i = first; i < waits.size(); ++i)
    for (std::size_t rank = 0; rank < waits[i].parts.size(); ++rank) {
      const WaitPart& part = waits[i].parts[rank];
      if (!part.is_there) continue;
      ++sums[rank].waits;
      for (std::size_t phase = 0; phase < kPhaseCount; ++phase)
        sums[rank].phase_ms[phase] += static_cast<double>(part.phase_ns[phase]) * kMilli;
    }
  return sums;
}

// The index of the first wait of its lateness. First its Delays are found, and then the step among theirs.
std::size_t moment_of(std::size_t rank, const std::vector<Delays>& delays, double cap,
                      const std::deque<CommonWait>& waits) {
  std::vector<double> sums;
  for (const Delays& each : delays) sums.push_back(std::isnan(each.sum[rank]) ? 0 : each.sum[rank]);
  const std::size_t at = change_point(sums, cap);
  if (at == 0) return 0;
  const std::size_t begin = delays[at - std::min(at, kUnitsAround)].first;
  const std::size_t end = at + kUnitsAround < delays.size() ? delays[at + kUnitsAround].first : waits.size();
  std::vector<double> steps;
  for (std::size_t i = begin; i < end; ++i) {
    const WaitPart* part = rank < waits[i].parts.size() ? &waits[i].parts[rank] : nullptr;
    steps.push_back(part != nullptr && part->is_there ? late_ms(sorted_arrivals(waits[i]), *part) : 0);
  }
  return begin + best_split(steps, cap);
}

// `shown_by`: the last waits that show its lateness.
void describe(LateRank& late, std::size_t moment, std::size_t shown_by, const std::deque<CommonWait>& waits) {
  const auto rank = static_cast<std::size_t>(late.rank);
  const auto is_there = [&](const CommonWait& wait) {
    return rank < wait.parts.size() && wait.parts[rank].is_there;
  };
  while (moment + 1 < waits.size() && !is_there(waits[moment])) ++moment;
  late.since_step = waits[moment].step;
  if (is_there(waits[moment])) late.since_ns = waits[moment].parts[rank].arrival_ns;
  const std::size_t first = std::max(moment, shown_by);
  double lateness = 0, waited = 0;
  std::size_t count = 0;
  for (std::size_t i = first; i < waits.size(); ++i) {
    if (!is_there(waits[i])) continue;
    lateness += late_ms(sorted_arrivals(waits[i]), waits[i].parts[rank]);
    waited += static_cast<double>(waits[i].waited_ns) * kMilli;
    ++count;
  }
  if (count > 0) late.late_ms = std::max(0.0, lateness / static_cast<double>(count));
  late.explains = lateness > kMost * waited;
  late.phase = phase_of_excess(sums_of(waits, first, waits.back().parts.size()), rank);
}

// Gives those that are late their moment.
void find_late_ones(Lateness& all, const std::deque<CommonWait>& waits) {
  const std::vector<Delays> delays = delays_of(waits, std::min(waits.size(), kWarmUp));
  const std::array begins{first_of_last_steps(waits, kRecentSteps), first_of_last_steps(waits, kMiddleWindow),
                          std::size_t{0}};
  const auto evidence = evidence_of(delays, begins);
  for (LateRank& late : all.ranks) {
    const auto rank = static_cast<std::size_t>(late.rank);
    if (late.late_ms < std::max(kLeastMs, kNotable * all.own_ms)) continue;
    if (rank >= evidence.size() || !evidence[rank]) continue;
    describe(late, moment_of(rank, delays, evidence[rank]->cap, waits), delays[evidence[rank]->first].first,
             waits);
  }
}

bool is_similar(double one, double other, double factor) {
  return one <= factor * other && other <= factor * one;
}

bool agree(const LateRank& one, const LateRank& other) {
  const auto step = [](const LateRank& late) { return static_cast<double>(*late.since_step); };
  return std::abs(step(one) - step(other)) <= kSameMoment &&
         is_similar(one.late_ms, other.late_ms, kSameSize);
}

}  // namespace

double median_or_zero(std::vector<double> values) {
  return values.empty() ? 0 : median_of(std::move(values));
}

std::size_t first_of_last_steps(const std::deque<CommonWait>& waits, std::size_t steps) {
  return waits.size() - std::min(waits.size(), steps);
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
    all.ranks.push_back(late);
  }
  find_late_ones(all, waits);
  std::ranges::stable_sort(all.ranks, std::ranges::greater(), [](const LateRank& late) {
    return std::pair(late.since_step.has_value(), late.late_ms);
  });
  return all;
}

std::vector<Stragglers::News> Stragglers::hear(const Lateness& lateness) {
  std::vector<News> news;
  for (auto& [rank, spell] : spells_) ++spell.punctual;
  for (const LateRank& late : lateness.ranks) {
    if (!late.since_step) continue;
    const auto [found, fresh] = spells_.try_emplace(late.rank, Spell{.before = late, .told_ms = {}});
    Spell& spell = found->second;
    const bool is_stable = !fresh && spell.punctual == 1 && agree(spell.before, late);
    spell.punctual = 0;
    spell.before = late;
    const bool is_known = spell.told_ms && is_similar(*spell.told_ms, late.late_ms, kOtherSize);
    if (!is_stable || is_known) continue;
    news.push_back({late, spell.told_ms.has_value()});
    spell.told_ms = late.late_ms;
  }
  std::erase_if(
      spells_, [](const auto& each) { return each.second.punctual > (each.second.told_ms ? kPunctual : 0); });
  return news;
}

}  // namespace rueda
