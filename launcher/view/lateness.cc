// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/lateness.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
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
constexpr std::size_t kMiddleWindow = 400;  // steps
constexpr std::size_t kMostPhaseParts = 1 << 17;
constexpr std::size_t kUnitsAround = 4;  // of a change, in which its step is looked for
// Of what is told: analyses, and factors.
constexpr int kPunctual = 20;
constexpr double kSameSize = 1.5, kOtherSize = 2;
constexpr double kSameMoment = 3;  // steps
// A single pause: nanoseconds, times the usual wait, and pauses of a rank. Without steps nothing is usual.
constexpr double kPause = 5e8, kPauseWaits = 20;
constexpr int kMostSingle = 2;
constexpr std::size_t kLeastForPauses = 20;

// A rank in the last steps.
struct Sums {
  std::size_t waits = 0, last = 0;
  double late_ms = 0, own_ms = 0;
};

// Of the smallest tenth of the means of stretches.
double best_of(std::vector<double> means) {
  if (means.empty()) return 0;
  const auto tenth = static_cast<std::ptrdiff_t>(
      std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(means.size()) * kBestTenth)));
  std::ranges::sort(means);
  return std::accumulate(means.begin(), means.begin() + tenth, 0.0) / static_cast<double>(tenth);
}

std::size_t bin_of(double ms) {
  return static_cast<std::size_t>(std::ranges::upper_bound(kLatenessBounds, ms) - kLatenessBounds.begin());
}

// The waits of a job, with the middle of each one's arrivals.
struct Waits {
  const std::deque<CommonWait>& all;
  std::vector<Middle> arrivals;
  std::vector<bool> is_pause;  // a single one
  std::size_t ranks = 0;

  double late_ms(std::size_t wait, std::size_t rank) const {
    const std::int64_t arrival = all[wait].parts[rank].due_ns();
    return static_cast<double>(arrival - arrivals[wait].median_without(arrival)) * kMilli;
  }
  bool has(std::size_t wait, std::size_t rank) const {
    return rank < all[wait].parts.size() && all[wait].parts[rank].is_there;
  }
};

Waits with_arrivals(const std::deque<CommonWait>& all) {
  Waits waits{.all = all, .arrivals = arrivals_of(all), .is_pause = single_pauses(all)};
  for (const CommonWait& wait : all) waits.ranks = std::max(waits.ranks, wait.parts.size());
  return waits;
}

// The last steps of all ranks, and the stretches of all steps.
struct Gathered {
  std::vector<Sums> sums;
  std::vector<LateRank> ranks;
  std::vector<std::vector<double>> stretches;  // by rank: means of its own times in ms, without unknown ones
  double wait_ms = 0;
  std::size_t steps = 0;
};

void add_recent(Gathered& all, const Waits& waits, std::size_t number) {
  if (waits.is_pause[number]) return;
  const CommonWait& wait = waits.all[number];
  const std::int64_t first = waits.arrivals[number].first, last = waits.arrivals[number].last;
  ++all.steps;
  all.wait_ms += static_cast<double>(wait.waited_ns) * kMilli;
  for (std::size_t rank = 0; rank < wait.parts.size(); ++rank) {
    const WaitPart& part = wait.parts[rank];
    if (!part.is_there) continue;
    Sums& sums = all.sums[rank];
    ++sums.waits;
    sums.late_ms += waits.late_ms(number, rank);
    if (part.own_ns != WaitPart::kUnknown) sums.own_ms += static_cast<double>(part.own_ns) * kMilli;
    if (part.due_ns() == last && last > first) ++sums.last;
    ++all.ranks[rank].histogram[bin_of(static_cast<double>(part.due_ns() - first) * kMilli)];
  }
}

void add_stretch(Gathered& all, const Waits& waits, std::size_t begin, std::size_t end) {
  std::vector<double> sums(waits.ranks), counts(waits.ranks);
  for (std::size_t i = begin; i < end; ++i)
    for (std::size_t rank = 0; rank < waits.all[i].parts.size(); ++rank) {
      const WaitPart& part = waits.all[i].parts[rank];
      if (!part.is_there || part.own_ns <= 0 || waits.is_pause[i]) continue;
      sums[rank] += static_cast<double>(part.own_ns) * kMilli;
      ++counts[rank];
    }
  for (std::size_t rank = 0; rank < waits.ranks; ++rank)
    if (counts[rank] > 0) all.stretches[rank].push_back(sums[rank] / counts[rank]);
}

// Without the first steps, where there are others.
std::size_t first_that_counts(const std::deque<CommonWait>& waits) {
  return waits.size() > 2 * kWarmUp ? kWarmUp : 0;
}

Gathered gather(const Waits& waits) {
  Gathered all{.sums = std::vector<Sums>(waits.ranks),
               .ranks = std::vector<LateRank>(waits.ranks),
               .stretches = std::vector<std::vector<double>>(waits.ranks)};
  const std::size_t first = first_that_counts(waits.all), count = waits.all.size();
  for (std::size_t i = std::max(first, first_of_last_steps(waits.all, kRecentSteps)); i < count; ++i)
    add_recent(all, waits, i);
  const std::size_t stretch = std::min(kStretch, count - first);
  for (std::size_t end = count; end >= first + stretch && end > first; end -= stretch)
    add_stretch(all, waits, end - stretch, end);
  return all;
}

// Of all ranks, over some of the last waits.
class PhaseSums {
 public:
  explicit PhaseSums(std::size_t ranks) : sums_(ranks), waits_(ranks) {}

  void add(const CommonWait& wait) {
    for (std::size_t rank = 0; rank < wait.parts.size(); ++rank) {
      const WaitPart& part = wait.parts[rank];
      if (!part.is_there) continue;
      ++waits_[rank];
      for (std::size_t phase = 0; phase < kPhaseCount; ++phase) sums_[rank][phase] += part.phase_ns[phase];
    }
    middles_.clear();
  }

  // The phase of which the rank's time exceeds the median of the other ranks most.
  Phase of_excess(std::size_t rank) {
    if (middles_.empty()) find_middles();
    Phase most = Phase::other;
    std::int64_t greatest = 0;
    for (std::size_t phase = 0; phase < kPhaseCount && waits_[rank] > 0; ++phase) {
      const std::int64_t own = mean(rank, phase);
      const Middle& middle = middles_[phase];
      const std::int64_t excess = own - (middle.count > 1 ? middle.median_without(own) : 0);
      if (excess <= greatest) continue;
      greatest = excess;
      most = static_cast<Phase>(phase);
    }
    return most;
  }

 private:
  std::int64_t mean(std::size_t rank, std::size_t phase) const { return sums_[rank][phase] / waits_[rank]; }

  void find_middles() {
    for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
      std::vector<std::int64_t> means;
      for (std::size_t rank = 0; rank < sums_.size(); ++rank)
        if (waits_[rank] > 0) means.push_back(mean(rank, phase));
      middles_.push_back(middle_of(std::move(means)));
    }
  }

  std::vector<std::array<std::int64_t, kPhaseCount>> sums_;
  std::vector<std::int64_t> waits_;
  std::vector<Middle> middles_;  // of the means, by phase
};

// The index of the first wait of its lateness. First its Delays are found, and then the step among theirs.
std::size_t moment_of(std::size_t rank, const std::vector<Delays>& delays, double cap, const Waits& waits) {
  std::size_t at = last_rise(rank, delays);
  if (at > 0) {
    cap = std::numeric_limits<double>::max();
  } else {
    std::vector<double> sums;
    for (const Delays& each : delays) sums.push_back(std::isnan(each.sum[rank]) ? 0 : each.sum[rank]);
    at = change_point(sums, cap);
  }
  if (at == 0) return 0;
  const std::size_t begin = delays[at - std::min(at, kUnitsAround)].first;
  const std::size_t end =
      at + kUnitsAround < delays.size() ? delays[at + kUnitsAround].first : waits.all.size();
  std::vector<double> steps;
  for (std::size_t i = begin; i < end; ++i) steps.push_back(waits.has(i, rank) ? waits.late_ms(i, rank) : 0);
  return begin + best_split(steps, cap);
}

// Between neighbouring steps since `first`; 0: there are none.
double mean_step_ms(const Waits& waits, std::size_t first) {
  double sum = 0, count = 0;
  for (std::size_t i = std::max<std::size_t>(1, first); i < waits.all.size(); ++i) {
    if (waits.all[i].step != waits.all[i - 1].step + 1 || waits.is_pause[i]) continue;
    sum += static_cast<double>(waits.arrivals[i].last - waits.arrivals[i - 1].last) * kMilli;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

// A late rank, and sums over the waits from `first` on: these show its lateness.
struct Described {
  LateRank& late;
  std::size_t first = 0;
  double lateness_ms = 0, waited_ms = 0;
  std::size_t waits = 0;
};

Described begin_to_describe(LateRank& late, std::size_t moment, std::size_t shown_by, const Waits& waits) {
  const auto rank = static_cast<std::size_t>(late.rank);
  while (moment + 1 < waits.all.size() && !waits.has(moment, rank)) ++moment;
  late.since_step = waits.all[moment].step;
  if (waits.has(moment, rank)) late.since_ns = waits.all[moment].parts[rank].arrival_ns;
  return {.late = late, .first = std::max(moment, shown_by)};
}

void add_wait(Described& described, const Waits& waits, std::size_t wait) {
  const auto rank = static_cast<std::size_t>(described.late.rank);
  if (!waits.has(wait, rank) || waits.is_pause[wait]) return;
  described.lateness_ms += waits.late_ms(wait, rank);
  described.waited_ms += static_cast<double>(waits.all[wait].waited_ns) * kMilli;
  ++described.waits;
}

void finish(Described& described, double step_ms) {
  const double lateness = described.lateness_ms;
  if (described.waits > 0)
    described.late.late_ms = std::max(0.0, lateness / static_cast<double>(described.waits));
  if (described.waits > 0)
    described.late.wait_ms = described.waited_ms / static_cast<double>(described.waits);
  described.late.explains = lateness > kMost * described.waited_ms;
  described.late.step_ms = step_ms;
}

// All of them in one go from the last wait back, so that they share sums.
void describe(std::vector<Described> all, const Waits& waits) {
  if (all.empty()) return;
  const std::size_t count = waits.all.size(),
                    begin = std::ranges::min_element(all, {}, &Described::first)->first;
  PhaseSums phases(waits.ranks);
  const std::size_t first_for_phases = count - phase_window(count - begin, waits.ranks);
  for (std::size_t i = count; i-- > begin;) {
    if (i >= first_for_phases && !waits.is_pause[i]) phases.add(waits.all[i]);
    for (Described& each : all) {
      if (i < each.first) continue;
      add_wait(each, waits, i);
      if (i == count - phase_window(count - each.first, waits.ranks))
        each.late.phase = phases.of_excess(static_cast<std::size_t>(each.late.rank));
      if (i == each.first) finish(each, mean_step_ms(waits, i));
    }
  }
}

double mean_late_ms(const Waits& waits, std::size_t rank, std::size_t first) {
  double sum = 0, count = 0;
  for (std::size_t i = first; i < waits.all.size(); ++i) {
    if (!waits.has(i, rank)) continue;
    sum += waits.late_ms(i, rank);
    ++count;
  }
  return count > 0 ? std::max(0.0, sum / count) : 0;
}

// Gives those that are late their moment.
void find_late_ones(Lateness& all, const Waits& waits) {
  const std::vector<Delays> delays =
      delays_of(waits.all, waits.arrivals, std::min(waits.all.size(), kWarmUp));
  const std::array begins{first_of_last_steps(waits.all, kRecentSteps),
                          first_of_last_steps(waits.all, kMiddleWindow), std::size_t{0}};
  const auto evidence = evidence_of(delays, begins);
  const double least = std::max(kLeastMs, kNotable * all.own_ms);
  const std::size_t half = first_of_last_steps(waits.all, kRecentSteps / 2);
  const std::size_t recent =
      std::max(first_that_counts(waits.all), first_of_last_steps(waits.all, kRecentSteps));
  std::vector<Described> found;
  for (LateRank& late : all.ranks) {
    const auto rank = static_cast<std::size_t>(late.rank);
    if (rank >= evidence.size() || !evidence[rank]) continue;
    const std::size_t shown_by = delays[evidence[rank]->first].first;
    const double cost = mean_late_ms(waits, rank, shown_by > half ? shown_by : recent);
    if (cost < least) continue;
    found.push_back(
        begin_to_describe(late, moment_of(rank, delays, evidence[rank]->cap, waits), shown_by, waits));
  }
  describe(std::move(found), waits);
}

std::optional<LateRank> suddenly_late(const Waits& waits) {
  const std::optional<LongWaits> found = long_waits_of(waits.all);
  if (!found) return {};
  LateRank late{.rank = static_cast<int>(found->rank)};
  describe({begin_to_describe(late, found->first, found->first, waits)}, waits);
  return late;
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

std::vector<bool> single_pauses(const std::deque<CommonWait>& waits) {
  std::vector<bool> single(waits.size());
  if (waits.size() < kLeastForPauses) return single;
  std::vector<double> lengths;
  for (const CommonWait& wait : waits) lengths.push_back(static_cast<double>(wait.waited_ns));
  const double least = std::max(kPause, kPauseWaits * median_of(lengths));
  std::map<std::size_t, std::vector<std::size_t>> by_rank;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (lengths[i] < least) continue;
    const auto last = std::ranges::max_element(waits[i].parts, {}, [](const WaitPart& part) {
      return part.is_there ? part.due_ns() : std::numeric_limits<std::int64_t>::min();
    });
    by_rank[static_cast<std::size_t>(last - waits[i].parts.begin())].push_back(i);
  }
  for (const auto& [rank, pauses] : by_rank)
    if (pauses.size() <= kMostSingle)
      for (const std::size_t i : pauses) single[i] = true;
  return single;
}

const LateRank* reason_to_wait(const Lateness& lateness, const std::function<bool(int rank)>& counts) {
  const auto found = std::ranges::find_if(
      lateness.ranks, [&](const LateRank& each) { return each.explains && counts(each.rank); });
  if (found != lateness.ranks.end()) return &*found;
  return lateness.suddenly && counts(lateness.suddenly->rank) ? &*lateness.suddenly : nullptr;
}

std::size_t phase_window(std::size_t steps, std::size_t ranks) {
  const std::size_t most = std::max(kRecentSteps, kMostPhaseParts / std::max<std::size_t>(1, ranks));
  return std::bit_floor(std::min(steps, most));
}

Lateness lateness_of(const std::deque<CommonWait>& all_waits) {
  Lateness all;
  if (all_waits.empty()) return all;
  const Waits waits = with_arrivals(all_waits);
  Gathered gathered = gather(waits);
  all.steps = gathered.steps;
  all.step_ms = mean_step_ms(waits, waits.all.size() - all.steps);
  all.wait_ms = gathered.wait_ms / static_cast<double>(all.steps);
  std::vector<double> own;
  double fastest = std::numeric_limits<double>::max();
  for (const Sums& sums : gathered.sums) {
    if (sums.waits == 0) continue;
    own.push_back(sums.own_ms / static_cast<double>(sums.waits));
    if (own.back() > 0) fastest = std::min(fastest, own.back());
  }
  all.own_ms = median_or_zero(own);
  for (std::size_t rank = 0, next = 0; rank < gathered.ranks.size(); ++rank) {
    const Sums& sums = gathered.sums[rank];
    if (sums.waits == 0) continue;
    LateRank& late = gathered.ranks[rank];
    const double now = own[next++], count = static_cast<double>(sums.waits);
    late.rank = static_cast<int>(rank);
    late.late_ms = std::max(0.0, sums.late_ms / count);
    late.share = static_cast<double>(sums.last) / count;
    if (now > 0) late.score_best = std::min(1.0, fastest / now);
    if (now > 0) late.score_own = std::min(1.0, best_of(std::move(gathered.stretches[rank])) / now);
    all.ranks.push_back(late);
  }
  find_late_ones(all, waits);
  all.suddenly = suddenly_late(waits);
  std::ranges::stable_sort(all.ranks, std::ranges::greater(), [](const LateRank& late) {
    return std::pair(late.since_step.has_value(), late.late_ms);
  });
  return all;
}

void Stragglers::keep_moments(Lateness& lateness, std::uint64_t oldest) const {
  for (LateRank& late : lateness.ranks) {
    const auto spell = spells_.find(late.rank);
    if (!late.since_step || spell == spells_.end()) continue;
    const LateRank& before = spell->second.before;
    if (*before.since_step > oldest || *before.since_step > *late.since_step) continue;
    late.since_step = before.since_step;
    late.since_ns = before.since_ns;
  }
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
