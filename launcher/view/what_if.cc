// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/what_if.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "launcher/view/lateness.h"

namespace rueda {
namespace {

constexpr std::size_t kMostReplays = 16;
constexpr std::size_t kMostParts = 1 << 16;  // of the steps that are replayed
constexpr std::size_t kLeastSteps = 5, kMostSteps = 500;
constexpr std::size_t kMostUsualParts = 1 << 14, kLeastUsual = 10,
                      kMostUsual = 100;   // of these and of steps a mean is taken
constexpr std::size_t kLeastBefore = 20;  // steps before a moment
constexpr double kMostShare = 1.2;        // the others have more of a core, or the machine has got faster
constexpr double kLeastShare = 0.5;       // no wait makes work take so much longer: it is other work
constexpr double kMostToWakeUp = 2e6;     // ns: after a long wait moves take so much longer, not more
constexpr double kSure = 2;               // errors of a difference
constexpr double kMostGain = 1.25;  // of the waits themselves: what else has got slower has other reasons
constexpr double kTypical = 0.9;    // of the values: the largest are chance
constexpr int kPunctual = 20;       // calls
constexpr double kAway = -std::numeric_limits<double>::infinity();

std::int64_t own_time(const WaitPart& part) { return std::max<std::int64_t>(0, part.own_ns); }

// The times of all ranks in one step.
struct Times {
  std::vector<double> own;  // kAway: it is not there
  std::vector<double> moves;
};

Times times_of(const CommonWait& wait) {
  const std::size_t ranks = wait.parts.size();
  Times times{std::vector<double>(ranks, kAway), std::vector<double>(ranks)};
  const std::int64_t last = last_arrival(wait);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const WaitPart& part = wait.parts[rank];
    if (!part.is_there) continue;
    times.own[rank] = static_cast<double>(own_time(part));
    times.moves[rank] = static_cast<double>(std::max<std::int64_t>(0, part.release_ns - last));
  }
  return times;
}

// Steps one after another.
struct Replay {
  std::size_t first = 0;          // of the waits
  int without = -1;               // nobody waits for this rank; -1: none
  double own = 1, moves = 1;      // so many times as long as they were
  std::vector<double> free_at{};  // by rank: the end of its wait before
  double end = 0;

  void add(const Times& times) {
    const std::size_t ranks = times.own.size();
    free_at.resize(std::max(free_at.size(), ranks), end);
    double last = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (static_cast<int>(rank) != without) last = std::max(last, free_at[rank] + own * times.own[rank]);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (times.own[rank] == kAway) continue;
      free_at[rank] = last + moves * times.moves[rank];
      end = std::max(end, free_at[rank]);
    }
  }
};

// The numbers of the Replays of one late rank. A plain value.
struct Compared {
  std::size_t with = 0, without = 0;
  double least = 0;                       // ns: as long as all of that took before its moment
  std::optional<std::size_t> as_it_is{};  // without it, but work and moves take as long as they do
};

std::int64_t end_of(const CommonWait& wait) {
  std::int64_t end = 0;
  for (const WaitPart& part : wait.parts)
    if (part.is_there) end = std::max(end, part.release_ns);
  return end;
}

// The number of the Replay of all ranks since then.
std::size_t of_all_ranks(std::vector<Replay>& replays, std::size_t first) {
  const auto found = std::ranges::find_if(
      replays, [&](const Replay& each) { return each.first == first && each.without < 0; });
  if (found != replays.end()) return static_cast<std::size_t>(found - replays.begin());
  replays.push_back({.first = first});
  return replays.size() - 1;
}

void run(std::vector<Replay>& replays, const std::deque<CommonWait>& waits,
         const std::vector<bool>& is_pause) {
  if (replays.empty()) return;
  for (std::size_t i = std::ranges::min_element(replays, {}, &Replay::first)->first; i < waits.size(); ++i) {
    if (is_pause[i]) continue;
    const Times times = times_of(waits[i]);
    for (Replay& each : replays)
      if (each.first <= i) each.add(times);
  }
}

}  // namespace

// A mean, since times may have two values that are often seen.
WhatIfs::Typical WhatIfs::typical_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  values.resize(static_cast<std::size_t>(std::ceil(kTypical * static_cast<double>(values.size()))));
  const auto count = static_cast<double>(values.size());
  const double mean = std::reduce(values.begin(), values.end()) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares) / count};
}

// 1 if chance explains the difference.
double WhatIfs::share_of(const Typical& before, const Typical& now) {
  const double difference = std::abs(before.mean - now.mean);
  if (now.mean <= 0 || difference < kSure * std::hypot(before.error, now.error)) return 1;
  return before.mean / now.mean;
}

WhatIfs::Usual WhatIfs::usual_of(const std::deque<CommonWait>& waits, std::size_t begin, std::size_t end,
                                 int rank) {
  const std::size_t most = std::clamp(kMostUsualParts / waits.back().parts.size(), kLeastUsual, kMostUsual);
  std::vector<double> own, moves, between_ends;
  for (std::size_t i = std::max(begin, end - std::min(end, most)); i < end; ++i) {
    const std::int64_t last = last_arrival(waits[i]);
    if (i > begin) between_ends.push_back(static_cast<double>(end_of(waits[i]) - end_of(waits[i - 1])));
    std::vector<std::int64_t> own_times, move_times;
    for (std::size_t other = 0; other < waits[i].parts.size(); ++other) {
      const WaitPart& part = waits[i].parts[other];
      if (!part.is_there || static_cast<int>(other) == rank) continue;
      own_times.push_back(own_time(part));
      move_times.push_back(std::max<std::int64_t>(0, part.release_ns - last));
    }
    own.push_back(middle_of(std::move(own_times)).median());
    moves.push_back(middle_of(std::move(move_times)).median());
  }
  return {typical_of(std::move(own)), typical_of(std::move(moves)), typical_of(std::move(between_ends))};
}

void WhatIfs::remember(const std::deque<CommonWait>& waits, std::size_t moment, int rank) {
  if (moment < kWarmUp + kLeastBefore || moment == waits.size()) return;
  const auto [found, is_new] = before_.try_emplace(rank);
  if (is_new || found->second.moment != waits[moment].step)
    found->second = {.moment = waits[moment].step, .usual = usual_of(waits, kWarmUp, moment, rank)};
}

void WhatIfs::forget(std::span<const LateSince> late) {
  for (auto& [rank, before] : before_)
    before.punctual = std::ranges::find(late, rank, &LateSince::rank) != late.end() ? 0 : before.punctual + 1;
  std::erase_if(before_, [](const auto& each) { return each.second.punctual > kPunctual; });
}

WhatIfs::Share WhatIfs::share_of_now(const std::deque<CommonWait>& waits, std::size_t first, int rank) const {
  const auto found = before_.find(rank);
  if (found == before_.end()) return {};
  const Usual &before = found->second.usual, now = usual_of(waits, first, waits.size(), rank);
  const double own = share_of(before.own, now.own);
  if (own < kLeastShare) return {};
  double moves = share_of(before.moves, now.moves);
  if (moves < kLeastShare && now.moves.mean - before.moves.mean > kMostToWakeUp) moves = 1;
  return {std::min(own, kMostShare), std::min(moves, kMostShare), before.between_ends.mean};
}

std::vector<WhatIf> WhatIfs::replay(const std::deque<CommonWait>& waits, std::span<const LateSince> late) {
  forget(late);
  if (waits.empty()) return {};
  const std::size_t most = std::clamp(kMostParts / waits.back().parts.size(), kRecentSteps, kMostSteps);
  const std::vector<bool> is_pause = single_pauses(waits);
  std::vector<Replay> replays;
  std::vector<Compared> compared;
  for (const LateSince& each : late.first(std::min(late.size(), kMostReplays))) {
    const auto moment = static_cast<std::size_t>(
        std::ranges::lower_bound(waits, each.step, {}, &CommonWait::step) - waits.begin());
    remember(waits, moment, each.rank);
    const std::size_t first =
        first_of_last_steps(waits, std::clamp(waits.size() - moment, kLeastSteps, most));
    const std::size_t with = of_all_ranks(replays, first);
    const Share share = share_of_now(waits, first, each.rank);
    const auto steps =
        std::count(is_pause.begin() + static_cast<std::ptrdiff_t>(first), is_pause.end(), false);
    compared.push_back({with, replays.size(), share.least * static_cast<double>(steps)});
    replays.push_back({.first = first, .without = each.rank, .own = share.own, .moves = share.moves});
    if (!share.makes_faster()) continue;
    compared.back().as_it_is = replays.size();
    replays.push_back({.first = first, .without = each.rank});
  }
  run(replays, waits, is_pause);
  std::vector<WhatIf> what_ifs;
  for (const Compared& each : compared) {
    const double before = replays[each.with].end;
    double after = replays[each.without].end;
    if (each.as_it_is) {
      const double as_it_is = replays[*each.as_it_is].end;
      after = std::max({after, std::min(as_it_is, each.least), before - kMostGain * (before - as_it_is)});
    }
    const double faster = before > 0 && after > 0 ? std::max(0.0, before / after - 1) : 0;
    what_ifs.push_back({replays[each.without].without, 100 * faster});
  }
  return what_ifs;
}

}  // namespace rueda
