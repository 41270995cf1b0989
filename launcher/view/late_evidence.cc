// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/late_evidence.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "core/base/median.h"

namespace rueda {
namespace {

constexpr double kMilli = 1e-6;  // of nanoseconds
constexpr std::int64_t kUnit = 30'000'000;
constexpr double kSure = 9;        // e to minus this power is a chance that is small enough
constexpr double kGoesOn = 0.5;    // of the mean: the last quarter's share at least
constexpr double kFewNumbers = 5;  // that are as high as the cap
constexpr double kRise = 3;
// Spells have one of these lengths, and take so long at least.
constexpr std::array<std::size_t, 5> kSpells{8, 10, 12, 16, 20};
constexpr std::int64_t kLeastSpell = 3'000'000'000;
constexpr std::size_t kLeastBefore = 20, kMostBefore = 200, kMostLongBefore = 1;
constexpr std::size_t kLeastRise = 3, kSeldom = 20;
constexpr std::int64_t kLeastRiseTime = 1'000'000'000;
constexpr std::size_t kLonger = 4;           // than spells before
constexpr double kClear = 1.5, kNearly = 4;  // times less: delays that are as high, and part of a spell
// Rare pauses: so many times as long as any other delay; a chance that is small enough for them; and from one
// to the next, in means of that time.
constexpr double kFar = 4, kSureOfPauses = 6.9, kLastPause = 3;
constexpr std::size_t kLeastPauses = 6;
constexpr double kLeastPause = 100;  // ms: machines have shorter ones of their own
// A rank that is slow from the start: looked for in so many Delays. They are about as long as each other, and
// this part of a step at least. Of those before, one in five may be as long.
constexpr std::size_t kMostFromStart = 40, kOneIn = 5;
constexpr double kAlike = 2, kLeastPart = 0.1;
constexpr double kNoCap = std::numeric_limits<double>::max();
// Long waits in a row: each and all of them, in ms.
constexpr double kLeastLong = 50, kLongSum = 300;
constexpr std::size_t kLeastLongWaits = 2;

// Half of all delays are smaller.
double usual_size(std::span<const Delays> delays) {
  std::vector<double> sizes;
  for (const Delays& each : delays)
    for (const double delay : each.sum)
      if (!std::isnan(delay)) sizes.push_back(std::abs(delay));
  if (sizes.empty()) return 0;
  const auto half = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::ranges::nth_element(sizes, half);
  return *half;
}

// Sums over some Delays. Each of them is capped, and the mean of its ranks taken off.
struct CappedSums {
  std::vector<double> late;      // by rank
  std::vector<double> recently;  // the same, of the last quarter
  std::size_t ranks = 0;         // at most
  double variance = 0, squared_range = 0, most = 0;

  void add(const Delays& delays, double cap, bool is_recent) {
    const auto capped = [cap](double delay) { return std::clamp(delay, -cap, cap); };
    double sum = 0, squares = 0, least = kNoCap, greatest = -kNoCap;
    std::size_t count = 0;
    for (const double delay : delays.sum) {
      if (std::isnan(delay)) continue;
      const double value = capped(delay);
      ++count;
      sum += value;
      squares += value * value;
      least = std::min(least, value);
      greatest = std::max(greatest, value);
    }
    if (count < 2) return;
    const double mean = sum / static_cast<double>(count);
    ranks = std::max(ranks, count);
    variance += std::max(0.0, squares / static_cast<double>(count) - mean * mean);
    squared_range += (greatest - least) * (greatest - least);
    most = std::max(most, greatest - mean);
    for (std::size_t rank = 0; rank < delays.sum.size(); ++rank) {
      if (std::isnan(delays.sum[rank])) continue;
      const double value = capped(delays.sum[rank]) - mean;
      late[rank] += value;
      if (is_recent) recently[rank] += value;
    }
  }

  // The chance of such a sum is at most e to minus this power, by the inequalities of Hoeffding and of
  // Bennett.
  double power(std::size_t rank) const {
    const double sum = late[rank];
    if (sum <= 0 || variance <= 0) return 0;
    const double ratio = sum * most / variance;
    const double bennett = variance / (most * most) * ((1 + ratio) * std::log1p(ratio) - ratio);
    return std::max(2 * sum * sum / squared_range, bennett);
  }
};

CappedSums sums_of(std::span<const Delays> delays, double cap) {
  const std::size_t ranks = delays.back().sum.size(), quarter = (delays.size() + 3) / 4;
  CappedSums sums{.late = std::vector<double>(ranks), .recently = std::vector<double>(ranks)};
  for (std::size_t i = 0; i < delays.size(); ++i) sums.add(delays[i], cap, i >= delays.size() - quarter);
  const double share = static_cast<double>(quarter) / static_cast<double>(delays.size());
  for (double& sum : sums.recently) sum /= share;
  return sums;
}

// The one before the greatest, of the last half: one pause alone does not count.
double high_delay(std::span<const Delays> delays, std::size_t rank) {
  double highest = 0, next = 0;
  for (const Delays& each : delays.last((delays.size() + 1) / 2)) {
    const double delay = std::isnan(each.sum[rank]) ? 0 : each.sum[rank];
    next = std::max(next, std::min(delay, highest));
    highest = std::max(highest, delay);
  }
  return next > 0 ? next : highest;
}

// Calls use(number, gain) where the mean rises.
void for_each_rise(std::span<const double> values, double cap,
                   const std::function<void(std::size_t, double before, double after, double gain)>& use) {
  const auto capped = [cap](double value) { return std::clamp(value, -cap, cap); };
  double whole = 0, sum = 0;
  for (const double value : values) whole += capped(value);
  const auto count = static_cast<double>(values.size());
  for (std::size_t i = 1; i < values.size(); ++i) {
    sum += capped(values[i - 1]);
    const auto number = static_cast<double>(i);
    const double before = sum / number, after = (whole - sum) / (count - number);
    if (after <= before) continue;
    use(i, before, after, number * (count - number) / count * (after - before) * (after - before));
  }
}

// The latest rank at one time.
struct Latest {
  std::size_t rank = 0;
  double delay = 0;  // at least
};

std::vector<Latest> latest_of(std::span<const Delays> delays) {
  std::vector<Latest> all;
  all.reserve(delays.size());
  for (const Delays& each : delays) {
    Latest& latest = all.emplace_back();
    for (std::size_t rank = 0; rank < each.sum.size(); ++rank)
      if (each.sum[rank] > latest.delay) latest = {rank, each.sum[rank]};
  }
  return all;
}

// The logarithm of the number of ways to choose some of all.
double log_choices(std::size_t all, std::size_t some) {
  const auto from = static_cast<double>(all), chosen = static_cast<double>(some);
  return std::lgamma(from + 1) - std::lgamma(chosen + 1) - std::lgamma(from - chosen + 1);
}

// Returns true if chance does not explain so many delays of `least` and more after those before.
bool is_beyond(std::span<const Latest> before, std::size_t length, double least, std::size_t ranks) {
  std::size_t as_high = 0, run = 0, longest = 0;
  for (const Latest& latest : before) {
    if (latest.delay >= least / kClear) ++as_high;
    run = latest.delay >= least / kNearly ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const double power = log_choices(before.size() + length, length) - log_choices(length + as_high, length);
  const auto tries = static_cast<double>(ranks * kSpells.size());
  return length >= kLonger * longest && power >= kSure + std::log(tries);
}

// The length of its spell at the end of all; 0: none that shows anything.
std::size_t spell_of(std::size_t rank, std::span<const Delays> delays, std::span<const Latest> latest) {
  double least = kNoCap;
  std::size_t length = 0;
  for (const std::size_t tried : kSpells) {
    if (tried + kLeastBefore > delays.size()) break;
    for (; length < tried; ++length) {
      const double delay = delays[delays.size() - 1 - length].sum[rank];
      if (!(delay > 0)) return 0;
      least = std::min(least, delay);
    }
    if (delays.back().at_ns - delays[delays.size() - length].at_ns < kLeastSpell) continue;
    const auto before = latest.first(latest.size() - length);
    if (is_beyond(before.last(std::min(before.size(), kMostBefore)), length, least, delays.back().sum.size()))
      return length;
  }
  return 0;
}

// Among many ranks chance has longer spells.
std::size_t least_from_start(std::size_t ranks) {
  constexpr std::size_t kManyRanks = 16;
  return kSpells.front() + static_cast<std::size_t>(std::bit_width(ranks / kManyRanks));
}

// The same of one that goes back to the first steps, or nearly: chance has nothing like it, as long as single
// steps are alike.
std::size_t spell_from_start(std::size_t rank, std::span<const Delays> delays,
                             std::span<const Latest> latest) {
  if (delays.empty()) return 0;
  const std::size_t least = least_from_start(delays.back().sum.size());
  if (delays.size() > kMostFromStart || delays.size() < least) return 0;
  std::vector<double> last;
  for (const Delays& each : delays.last(least))
    last.push_back(std::isnan(each.sum[rank]) ? 0 : each.sum[rank]);
  const double middle = median_of(std::move(last));
  std::size_t length = 0;
  while (length < delays.size()) {
    const double delay = delays[delays.size() - 1 - length].sum[rank];
    if (!(delay >= middle / kAlike && delay <= middle * kAlike)) break;
    ++length;
  }
  if (length < least) return 0;
  const std::int64_t took = delays.back().at_ns - delays[delays.size() - length].at_ns;
  const double step = static_cast<double>(took) * kMilli / static_cast<double>(length - 1);
  if (took < kLeastSpell || middle < kLeastPart * step) return 0;
  const auto before = latest.first(latest.size() - length);
  const auto as_high = static_cast<std::size_t>(
      std::ranges::count_if(before, [&](const Latest& each) { return each.delay >= middle / kNearly; }));
  return as_high <= before.size() / kOneIn ? length : 0;
}

// Delays one after another are one pause.
struct Pauses {
  std::size_t all = 0, own = 0;
  std::size_t first = 0, last = 0;  // of its own

  Pauses(std::size_t rank, std::span<const Latest> latest, double least) {
    bool goes_on = false;
    for (std::size_t i = 0; i < latest.size(); ++i) {
      const bool is_pause = latest[i].delay >= least;
      const bool begins = is_pause && !(goes_on && latest[i - 1].rank == latest[i].rank);
      goes_on = is_pause;
      if (begins) ++all;
      if (!is_pause || latest[i].rank != rank) continue;
      last = i;
      if (begins && own++ == 0) first = i;
    }
  }

  // The chance that some rank has so many of all is e to minus this power.
  double power(std::size_t ranks) const {
    const double share = 1 / static_cast<double>(ranks);
    double chance = 0;
    for (std::size_t count = own; count <= all; ++count)
      chance += std::exp(log_choices(all, count) + static_cast<double>(count) * std::log(share) +
                         static_cast<double>(all - count) * std::log1p(-share));
    return -std::log(chance * static_cast<double>(ranks));
  }

  bool go_on(std::size_t delays) const {
    return static_cast<double>((delays - 1 - last) * (own - 1)) <=
           kLastPause * static_cast<double>(last - first);
  }
};

// Delays that are far beyond the next smaller one.
std::vector<double> limits_of_pauses(std::span<const Latest> latest, std::size_t ranks) {
  const double least = ranks == 2 ? kLeastPause / 2 : kLeastPause;  // their median is half way
  std::vector<double> sizes, limits;
  for (const Latest& each : latest) sizes.push_back(each.delay);
  std::ranges::sort(sizes);
  for (std::size_t i = 1; i < sizes.size(); ++i)
    if (sizes[i] >= least && sizes[i] >= kFar * sizes[i - 1]) limits.push_back(sizes[i]);
  return limits;
}

// The rank that has nearly all of the delays that are far beyond the others.
std::optional<std::size_t> rank_with_pauses(std::span<const Latest> latest, std::size_t ranks) {
  for (const double least : limits_of_pauses(latest, ranks)) {
    std::vector<std::size_t> counts(ranks);
    for (const Latest& each : latest)
      if (each.delay >= least) ++counts[each.rank];
    const auto most = static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin());
    if (counts[most] < kLeastPauses) continue;
    const Pauses pauses(most, latest, least);
    if (pauses.own >= kLeastPauses && pauses.power(ranks) >= kSureOfPauses && pauses.go_on(latest.size()))
      return most;
  }
  return std::nullopt;
}

// The longest wait of one step. A plain value.
struct LongestWait {
  std::uint64_t step = 0;
  std::size_t wait = 0;  // its number
  double ms = 0;
};

// The longest wait of each of the last steps, the newest first.
std::vector<LongestWait> longest_waits(const std::deque<CommonWait>& waits) {
  std::vector<LongestWait> steps;
  for (std::size_t i = waits.size(); i-- > 0;) {
    const LongestWait wait{waits[i].step, i, static_cast<double>(waits[i].waited_ns) * kMilli};
    const bool is_same = !steps.empty() && steps.back().step == wait.step;
    if (!is_same && steps.size() == kMostBefore) break;
    if (!is_same) steps.push_back(wait);
    if (steps.back().ms < wait.ms) steps.back() = wait;
  }
  return steps;
}

std::size_t last_rank(const CommonWait& wait) {
  const auto arrival = [](const WaitPart& part) {
    return part.is_there ? part.due_ns() : std::numeric_limits<std::int64_t>::min();
  };
  return static_cast<std::size_t>(std::ranges::max_element(wait.parts, {}, arrival) - wait.parts.begin());
}

// Finds those whose delays have been far beyond all before for a while, and those with rare pauses.
void find_more(std::vector<std::optional<Evidence>>& found, std::span<const Delays> delays) {
  const std::vector<Latest> latest = latest_of(delays);
  const std::optional<std::size_t> pausing = rank_with_pauses(latest, found.size());
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (found[rank]) continue;
    std::size_t length = spell_of(rank, delays, latest);
    if (length == 0) length = spell_from_start(rank, delays, latest);
    if (length == 0 && pausing == rank) length = delays.size();
    if (length > 0) found[rank] = {delays.size() - length, high_delay(delays.last(length), rank)};
  }
}

}  // namespace

std::vector<Delays> delays_of(const std::deque<CommonWait>& waits, std::span<const Middle> arrivals,
                              std::size_t first) {
  std::size_t ranks = 0;
  for (const CommonWait& wait : waits) ranks = std::max(ranks, wait.parts.size());
  std::vector<Delays> all;
  std::int64_t until = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = first; i < waits.size(); ++i) {
    const Middle& middle = arrivals[i];
    if (middle.count < 2) continue;
    if (all.empty() || middle.last > until) {
      all.push_back({i, middle.first, std::vector<double>(ranks, std::numeric_limits<double>::quiet_NaN())});
      until = (i > 0 ? std::max(arrivals[i - 1].last, middle.first) : middle.first) + kUnit;
    }
    std::vector<double>& sums = all.back().sum;
    for (std::size_t rank = 0; rank < waits[i].parts.size(); ++rank) {
      const WaitPart& part = waits[i].parts[rank];
      if (!part.is_there) continue;
      const double before = std::isnan(sums[rank]) ? 0 : sums[rank];
      sums[rank] = before + (static_cast<double>(part.due_ns()) - middle.median()) * kMilli;
    }
  }
  return all;
}

std::vector<std::optional<Evidence>> evidence_of(const std::vector<Delays>& delays,
                                                 std::span<const std::size_t> begins) {
  std::vector<std::optional<Evidence>> found;
  if (delays.empty()) return found;
  found.resize(delays.back().sum.size());
  std::vector<double> powers(found.size());
  std::size_t looked_at = delays.size();
  for (const std::size_t wait : begins) {
    const auto begin = std::ranges::lower_bound(delays, wait, {}, &Delays::first);
    const auto first = static_cast<std::size_t>(begin - delays.begin());
    if (first == std::exchange(looked_at, first) || first == delays.size()) continue;
    const auto last_delays = std::span(delays).subspan(first);
    const double usual = usual_size(last_delays);
    const auto found_before = found;
    for (const double cap : {3 * usual, 30 * usual, kNoCap}) {
      const CappedSums sums = sums_of(last_delays, cap);
      for (std::size_t rank = 0; rank < found.size(); ++rank) {
        const double power = found_before[rank] ? 0 : sums.power(rank);
        if (power <= powers[rank] || power < kSure + std::log(static_cast<double>(sums.ranks))) continue;
        if (sums.recently[rank] < kGoesOn * sums.late[rank]) continue;
        powers[rank] = power;
        found[rank] = {first, std::min(cap, high_delay(last_delays, rank))};
      }
    }
  }
  find_more(found, delays);
  return found;
}

std::size_t last_rise(std::size_t rank, std::span<const Delays> delays) {
  if (delays.size() < kLeastRise + kLeastBefore) return 0;
  std::array<double, kLeastRise> last{};
  for (std::size_t i = 0; i < kLeastRise; ++i) {
    last[i] = delays[delays.size() - 1 - i].sum[rank];
    if (std::isnan(last[i])) return 0;
  }
  std::ranges::sort(last);
  const double high = last[kLeastRise / 2] / 2;
  std::size_t first = delays.size();
  while (first > 0 && delays[first - 1].sum[rank] >= high) --first;
  if (delays.size() - first < kLeastRise || first < kLeastBefore) return 0;
  if (!(high > 0) || delays.back().at_ns - delays[first].at_ns < kLeastRiseTime) return 0;
  const auto before = delays.first(first).last(std::min(first, kMostBefore));
  const auto as_high = static_cast<std::size_t>(
      std::ranges::count_if(before, [&](const Delays& each) { return each.sum[rank] >= high / 2; }));
  return as_high <= before.size() / kSeldom ? first : 0;
}

std::size_t change_point(std::span<const double> values, double cap) {
  std::size_t at = 0;
  double most = 0;
  for_each_rise(values, cap, [&](std::size_t number, double before, double after, double gain) {
    const double sum = after * static_cast<double>(values.size() - number);
    if (gain <= most || after < kRise * before || sum < kFewNumbers * cap) return;
    most = gain;
    at = number;
  });
  return at;
}

std::size_t best_split(std::span<const double> values, double cap) {
  std::size_t at = 0;
  double most = 0;
  for_each_rise(values, cap, [&](std::size_t number, double, double, double gain) {
    if (gain <= most) return;
    most = gain;
    at = number;
  });
  return at;
}

std::optional<LongWaits> long_waits_of(const std::deque<CommonWait>& waits) {
  const std::vector<LongestWait> steps = longest_waits(waits);
  double sum_ms = 0, shortest = kNoCap;
  std::size_t count = 0;
  for (; count < steps.size(); ++count) {
    const LongestWait& step = steps[count];
    if (step.ms < kLeastLong || last_rank(waits[step.wait]) != last_rank(waits[steps.front().wait])) break;
    sum_ms += step.ms;
    shortest = std::min(shortest, step.ms);
  }
  if (count < kLeastLongWaits || sum_ms < kLongSum || steps.size() < count + kLeastBefore) return {};
  std::size_t long_before = 0;  // as an evaluation is
  for (std::size_t i = count; i < steps.size(); ++i)
    if (shortest < kFar * steps[i].ms && ++long_before > kMostLongBefore) return {};
  return LongWaits{last_rank(waits[steps.front().wait]), steps[count - 1].wait};
}

}  // namespace rueda
