// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/step_times.h"

#include <algorithm>
#include <limits>

namespace rueda {
namespace {

constexpr auto kOverdue = std::chrono::seconds(2);
constexpr std::size_t kMostPending = 8192;
constexpr std::size_t kMostParts = 262'144;  // of all steps that are kept
constexpr std::size_t kLeastSteps = 256, kMostSteps = 2048;
constexpr std::uint32_t kMostMissed = 10;
constexpr std::int64_t kGap = 1'000'000;
constexpr std::int64_t kTogether = 50'000'000;  // of the ends of a wait
constexpr std::int64_t kEarly = 5'000'000;      // results may be there before the last rank asks for them

std::int64_t first_arrival(const CommonWait& wait) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const WaitPart& part : wait.parts)
    if (part.is_there) first = std::min(first, part.arrival_ns);
  return first;
}

// Whether all parts are of one wait: nobody's ends before the last one arrives, and all end together.
bool is_common(const CommonWait& wait) {
  const std::int64_t last = last_arrival(wait);
  std::int64_t first_release = std::numeric_limits<std::int64_t>::max(), last_release = -first_release;
  for (const WaitPart& part : wait.parts) {
    if (!part.is_there) continue;
    first_release = std::min(first_release, part.release_ns);
    last_release = std::max(last_release, part.release_ns);
  }
  const std::int64_t length = first_release - first_arrival(wait);
  return first_release + kEarly >= last && last_release - first_release <= std::max(kTogether, length);
}

void add_part(WaitPart& sum, const WaitPart& part, std::int64_t first, std::int64_t last) {
  sum.arrival_ns += part.arrival_ns - first;
  sum.release_ns += part.release_ns - last;  // of the moves alone, until all waits are added
  sum.lag_ns += part.lag_ns;
  if (part.own_ns != WaitPart::kUnknown) sum.own_ns = std::max<std::int64_t>(0, sum.own_ns) + part.own_ns;
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) sum.phase_ns[phase] += part.phase_ns[phase];
}

// Moves end later on some ranks than on others. That is no lateness of these ranks.
void find_lags(CommonWait& wait) {
  std::vector<std::int64_t> begins;
  for (const WaitPart& part : wait.parts)
    if (part.is_there && part.own_ns != WaitPart::kUnknown) begins.push_back(part.arrival_ns - part.own_ns);
  const Middle middle = middle_of(std::move(begins)), arrivals = arrivals_of(wait);
  if (middle.count < 2) return;
  for (WaitPart& part : wait.parts) {
    if (!part.is_there || part.own_ns == WaitPart::kUnknown) continue;
    const std::int64_t begin = part.arrival_ns - part.own_ns;
    const std::int64_t delay = part.arrival_ns - arrivals.median_without(part.arrival_ns);
    part.lag_ns =
        std::clamp<std::int64_t>(begin - middle.median_without(begin), 0, std::max<std::int64_t>(0, delay));
  }
}

// `sum` and `wait` are of one step.
void add_wait_to(CommonWait& sum, const CommonWait& wait) {
  const std::int64_t begin = first_arrival(sum), last_of_sum = last_arrival(sum);
  const std::int64_t first = first_arrival(wait), last = last_arrival(wait);
  sum.parts.resize(std::max(sum.parts.size(), wait.parts.size()));
  for (std::size_t rank = 0; rank < sum.parts.size(); ++rank) {
    WaitPart& part = sum.parts[rank];
    if (part.is_there) part.release_ns -= last_of_sum;
    if (rank >= wait.parts.size() || !wait.parts[rank].is_there) continue;
    if (!std::exchange(part.is_there, true)) part.arrival_ns = begin;
    add_part(part, wait.parts[rank], first, last);
  }
  const std::int64_t end = last_arrival(sum);
  for (WaitPart& part : sum.parts)
    if (part.is_there) part.release_ns += end;
  sum.waited_ns += wait.waited_ns;
}

}  // namespace

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, kPhaseCount> kNames{
      "other", "data", "forward", "backward", "wait", "step", "evaluation", "checkpoint", "garbage"};
  return kNames[static_cast<std::size_t>(phase)];
}

double Middle::median() const {
  const auto lower = static_cast<double>(at);
  return count % 2 == 1 ? lower : lower + static_cast<double>(above - at) / 2;
}

std::int64_t Middle::median_without(std::int64_t one) const {
  if (count <= 1) return at;
  if (count % 2 == 0) return one <= at ? above : at;
  const std::int64_t lower = one < at ? at : below, upper = one <= at ? above : at;
  return lower + (upper - lower) / 2;
}

Middle middle_of(std::vector<std::int64_t> numbers) {
  if (numbers.empty()) return {};
  const auto at = numbers.begin() + static_cast<std::ptrdiff_t>((numbers.size() - 1) / 2);
  std::ranges::nth_element(numbers, at);
  Middle middle{.count = numbers.size(), .below = *at, .at = *at, .above = *at};
  middle.first = middle.last = *at;
  if (at != numbers.begin()) {
    const auto [least, greatest] = std::minmax_element(numbers.begin(), at);
    middle.first = *least;
    middle.below = *greatest;
  }
  if (at + 1 != numbers.end()) {
    const auto [least, greatest] = std::minmax_element(at + 1, numbers.end());
    middle.above = *least;
    middle.last = *greatest;
  }
  return middle;
}

std::int64_t last_arrival(const CommonWait& wait) {
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const WaitPart& part : wait.parts)
    if (part.is_there) last = std::max(last, part.arrival_ns);
  return last;
}

Middle arrivals_of(const CommonWait& wait) {
  std::vector<std::int64_t> arrivals;
  arrivals.reserve(wait.parts.size());
  for (const WaitPart& part : wait.parts)
    if (part.is_there) arrivals.push_back(part.due_ns());
  return middle_of(std::move(arrivals));
}

std::vector<Middle> arrivals_of(const std::deque<CommonWait>& waits) {
  std::vector<Middle> all;
  all.reserve(waits.size());
  for (const CommonWait& wait : waits) all.push_back(arrivals_of(wait));
  return all;
}

void StepTimes::expect(std::set<int> ranks) { expected_ = std::move(ranks); }

void StepTimes::expect(int ranks) {
  expected_.clear();
  for (int rank = 0; rank < ranks; ++rank) expected_.insert(rank);
}

void StepTimes::add(int rank, const RankSpan& span, Time now) {
  Rank& about = ranks_[rank];
  look_for_gap(about, span);
  if (!about.has_spans || span.step != about.step) begin_step(about, span);
  about.has_spans = true;
  about.heard_ns = span.end_ns;
  if (span.phase == Phase::wait) return add_wait(rank, about, span, now);
  about.phase_ns[static_cast<std::size_t>(span.phase)] += span.end_ns - span.begin_ns;
  shown_.push_back({rank, span});
}

void StepTimes::note_end(int rank, std::int64_t at_ns) {
  if (const auto found = ranks_.find(rank); found != ranks_.end()) found->second.ended_ns = at_ns;
}

void StepTimes::begin_step(Rank& about, const RankSpan& span) {
  if (about.has_spans && span.step < about.step) forget_from(span.step, span.begin_ns);
  about.step = span.step;
  about.waits = 0;
}

// Some spans have never been heard: nobody has watched, and newer ones have taken their place.
void StepTimes::look_for_gap(Rank& about, const RankSpan& span) {
  const bool is_other_step = !about.has_spans || span.step != about.step;
  if (is_other_step) about.skips_step = false;
  if (!about.has_spans) return;
  const bool jumps = span.step > about.step && span.step - about.step > 1;
  if (!jumps && span.begin_ns - about.heard_ns <= kGap) return;
  about.skips_step = true;
  about.has_waited = false;
  about.phase_ns = {};
}

// The rank does these steps once more. Waits that are over for some rank by now are of the time before.
void StepTimes::forget_from(std::uint64_t step, std::int64_t until_ns) {
  const auto is_old = [&](const CommonWait& wait) {
    return wait.step >= step && std::ranges::any_of(wait.parts, [&](const WaitPart& part) {
             return part.is_there && part.release_ns <= until_ns;
           });
  };
  std::erase_if(waits_, is_old);
  if (present_ && is_old(*present_)) present_.reset();
  std::erase_if(pending_, [&](const auto& each) {
    const CommonWait& wait = each.second.wait;
    if (!is_old(wait)) return false;
    show(wait, false);
    return true;
  });
}

void StepTimes::begin_anew() {
  for (const auto& [key, pending] : pending_) show(pending.wait, false);
  pending_.clear();
  waits_.clear();
  present_.reset();
  ranks_.clear();
}

void StepTimes::add_wait(int rank, Rank& about, const RankSpan& span, Time now) {
  const bool has_waited = std::exchange(about.has_waited, true);
  const std::int64_t since = std::exchange(about.since_ns, span.end_ns);
  const auto phases = std::exchange(about.phase_ns, {});
  about.missed = 0;
  if (about.skips_step) return shown_.push_back({rank, span});
  const auto [found, fresh] = pending_.try_emplace(Key{span.step, about.waits++});
  Pending& pending = found->second;
  if (fresh) {
    pending.since = now;
    pending.wait.step = span.step;
  }
  auto& parts = pending.wait.parts;
  parts.resize(std::max(parts.size(), static_cast<std::size_t>(rank) + 1));
  WaitPart& part = parts[static_cast<std::size_t>(rank)];
  part.is_there = true;
  part.arrival_ns = span.begin_ns;
  part.release_ns = span.end_ns;
  if (has_waited) part.own_ns = std::max<std::int64_t>(0, span.begin_ns - since);
  part.phase_ns = phases;
  if (has_all(pending)) complete(std::move(pending_.extract(found).mapped()));
}

bool StepTimes::is_awaited(int rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() || found->second.missed < kMostMissed;
}

// The last ones come last, mostly.
bool StepTimes::has_all(const Pending& pending) const {
  const auto& parts = pending.wait.parts;
  return std::ranges::all_of(expected_.rbegin(), expected_.rend(), [&](int rank) {
    const auto number = static_cast<std::size_t>(rank);
    return (number < parts.size() && parts[number].is_there) || !is_awaited(rank);
  });
}

void StepTimes::note_missing(const Pending& pending) {
  const auto& parts = pending.wait.parts;
  for (const int rank : expected_) {
    const auto number = static_cast<std::size_t>(rank);
    if (number >= parts.size() || !parts[number].is_there) ++ranks_[rank].missed;
  }
}

// A rank that has steps, too, has no part in the wait. It hangs, or has ended meanwhile.
bool StepTimes::lacks_one(const CommonWait& wait) const {
  const std::int64_t first = first_arrival(wait);
  return std::ranges::any_of(ranks_, [&](const auto& each) {
    const auto& [rank, about] = each;
    const auto number = static_cast<std::size_t>(rank);
    const bool is_there = number < wait.parts.size() && wait.parts[number].is_there;
    return !is_there && about.has_spans && is_awaited(rank) && (!about.ended_ns || first < *about.ended_ns);
  });
}

void StepTimes::act(Time now) {
  for (auto each = pending_.begin(); each != pending_.end();) {
    const Pending& pending = each->second;
    const bool is_overdue = now >= pending.since + kOverdue;
    if (is_overdue) note_missing(pending);
    if (!is_overdue && !has_all(pending) && pending_.size() <= kMostPending) {
      ++each;
      continue;
    }
    Pending done = std::move(each->second);
    each = pending_.erase(each);
    complete(std::move(done));
  }
}

void StepTimes::show(const CommonWait& wait, bool splits) {
  const std::int64_t last = last_arrival(wait);
  for (std::size_t rank = 0; rank < wait.parts.size(); ++rank) {
    const WaitPart& part = wait.parts[rank];
    if (!part.is_there) continue;
    const auto number = static_cast<int>(rank);
    const std::int64_t split = splits ? std::min(part.release_ns, last) : part.release_ns;
    if (split > part.arrival_ns) shown_.push_back({number, {Phase::wait, wait.step, part.arrival_ns, split}});
    if (part.release_ns > split)
      shown_.push_back({number, {Phase::wait, wait.step, split, part.release_ns}, true});
  }
}

void StepTimes::complete(Pending pending) {
  CommonWait& wait = pending.wait;
  const bool is_one = is_common(wait);
  show(wait, is_one && !lacks_one(wait));
  find_lags(wait);
  const Middle arrivals = arrivals_of(wait);
  if (arrivals.count < 2 || !is_one) return;  // nobody is late alone
  ++completed_;
  wait.waited_ns = arrivals.last - arrivals.median_without(arrivals.last);
  gather(std::move(wait));
}

// A wait of a later step tells that the step before is complete.
void StepTimes::gather(CommonWait wait) {
  if (!present_ || present_->step < wait.step) {
    if (present_) keep(std::move(*present_));
    present_ = std::move(wait);
  } else if (present_->step == wait.step) {
    add_wait_to(*present_, wait);
  } else {
    keep(std::move(wait));
  }
}

void StepTimes::keep(CommonWait wait) {
  const auto behind = std::ranges::lower_bound(waits_, wait.step, {}, &CommonWait::step);
  if (behind != waits_.end() && behind->step == wait.step) return add_wait_to(*behind, wait);
  const std::size_t most = std::clamp(kMostParts / wait.parts.size(), kLeastSteps, kMostSteps);
  waits_.insert(behind, std::move(wait));
  while (waits_.size() > most) waits_.pop_front();
}

}  // namespace rueda
