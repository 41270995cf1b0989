// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/what_if.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "launcher/view/lateness.h"

namespace rueda {
namespace {

constexpr std::size_t kMostReplays = 16;
constexpr std::size_t kMostParts = 1 << 16;  // of the steps that are replayed
constexpr std::size_t kLeastSteps = 5, kMostSteps = 500;
constexpr std::size_t kMostUsualParts = 1 << 14, kLeastUsual = 10,
                      kMostUsual = 100;   // of these and of steps a median is taken
constexpr std::size_t kLeastBefore = 20;  // steps before a moment
constexpr double kMostShare = 1.2;        // the others have more of a core, or the machine has got faster
constexpr double kLeastShare = 0.5;       // no wait makes work take so much longer: it is other work
constexpr double kSure = 2;               // errors of a difference
constexpr double kMedianError = 0.93;     // of the distance of the quartiles, for one value
constexpr int kPunctual = 20;             // calls
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

// The number of the Replay of all ranks since then.
std::size_t of_all_ranks(std::vector<Replay>& replays, std::size_t first) {
  const auto found = std::ranges::find_if(
      replays, [&](const Replay& each) { return each.first == first && each.without < 0; });
  if (found != replays.end()) return static_cast<std::size_t>(found - replays.begin());
  replays.push_back({.first = first});
  return replays.size() - 1;
}

void run(std::vector<Replay>& replays, const std::deque<CommonWait>& waits) {
  if (replays.empty()) return;
  for (std::size_t i = std::ranges::min_element(replays, {}, &Replay::first)->first; i < waits.size(); ++i) {
    const Times times = times_of(waits[i]);
    for (Replay& each : replays)
      if (each.first <= i) each.add(times);
  }
}

}  // namespace

// The error of a median follows from the quartiles.
WhatIfs::Typical WhatIfs::typical_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t count = values.size();
  const double quartiles = values[3 * count / 4] - values[count / 4];
  return {median_or_zero(std::move(values)),
          kMedianError * quartiles / std::sqrt(static_cast<double>(count))};
}

// 1 if chance explains the difference.
double WhatIfs::share_of(const Typical& before, const Typical& now) {
  const double difference = std::abs(before.median - now.median);
  if (now.median <= 0 || difference < kSure * std::hypot(before.error, now.error)) return 1;
  return before.median / now.median;
}

WhatIfs::Usual WhatIfs::usual_of(const std::deque<CommonWait>& waits, std::size_t begin, std::size_t end,
                                 int rank) {
  const std::size_t most = std::clamp(kMostUsualParts / waits.back().parts.size(), kLeastUsual, kMostUsual);
  std::vector<double> own, moves;
  for (std::size_t i = std::max(begin, end - std::min(end, most)); i < end; ++i) {
    const std::int64_t last = last_arrival(waits[i]);
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
  return {typical_of(std::move(own)), typical_of(std::move(moves))};
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
  return {std::min(own, kMostShare), std::min(share_of(before.moves, now.moves), kMostShare)};
}

std::vector<WhatIf> WhatIfs::replay(const std::deque<CommonWait>& waits, std::span<const LateSince> late) {
  forget(late);
  if (waits.empty()) return {};
  const std::size_t most = std::clamp(kMostParts / waits.back().parts.size(), kRecentSteps, kMostSteps);
  std::vector<Replay> replays;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  // with it and without it
  for (const LateSince& each : late.first(std::min(late.size(), kMostReplays))) {
    const auto moment = static_cast<std::size_t>(
        std::ranges::lower_bound(waits, each.step, {}, &CommonWait::step) - waits.begin());
    remember(waits, moment, each.rank);
    const std::size_t first =
        first_of_last_steps(waits, std::clamp(waits.size() - moment, kLeastSteps, most));
    const std::size_t with = of_all_ranks(replays, first);
    const Share share = share_of_now(waits, first, each.rank);
    pairs.emplace_back(with, replays.size());
    replays.push_back({.first = first, .without = each.rank, .own = share.own, .moves = share.moves});
  }
  run(replays, waits);
  std::vector<WhatIf> what_ifs;
  for (const auto& [with, without] : pairs) {
    const double before = replays[with].end, after = replays[without].end;
    const double faster = before > 0 && after > 0 ? std::max(0.0, before / after - 1) : 0;
    what_ifs.push_back({replays[without].without, 100 * faster});
  }
  return what_ifs;
}

}  // namespace rueda
