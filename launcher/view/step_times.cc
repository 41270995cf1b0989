// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/step_times.h"

#include <algorithm>

namespace rueda {
namespace {

constexpr auto kOverdue = std::chrono::seconds(2);
constexpr std::size_t kMostPending = 8192;
constexpr std::size_t kMostParts = 262'144;  // of all waits that are kept
constexpr std::size_t kLeastWaits = 256, kMostWaits = 2048;

}  // namespace

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, kPhaseCount> kNames{
      "other", "data", "forward", "backward", "wait", "step", "evaluation", "checkpoint", "garbage"};
  return kNames[static_cast<std::size_t>(phase)];
}

void StepTimes::add(int rank, const RankSpan& span, Time now) {
  Rank& about = ranks_[rank];
  if (span.step != about.step) {
    about.step = span.step;
    about.waits = 0;
  }
  if (span.phase == Phase::wait) return add_wait(rank, about, span, now);
  about.phase_ns[static_cast<std::size_t>(span.phase)] += span.end_ns - span.begin_ns;
  shown_.push_back({rank, span});
}

void StepTimes::add_wait(int rank, Rank& about, const RankSpan& span, Time now) {
  const auto [found, fresh] = pending_.try_emplace(Key{span.step, about.waits++});
  Pending& pending = found->second;
  if (fresh) {
    pending.since = now;
    pending.wait.step = span.step;
  }
  auto& parts = pending.wait.parts;
  parts.resize(std::max(parts.size(), static_cast<std::size_t>(rank) + 1));
  WaitPart& part = parts[static_cast<std::size_t>(rank)];
  if (!std::exchange(part.is_there, true)) ++pending.parts;
  part.arrival_ns = span.begin_ns;
  part.release_ns = span.end_ns;
  if (about.has_waited) part.own_ns = std::max<std::int64_t>(0, span.begin_ns - about.since_ns);
  part.phase_ns = std::exchange(about.phase_ns, {});
  about.has_waited = true;
  about.since_ns = span.end_ns;
  if (pending.parts < expected_) return;
  complete(std::move(pending_.extract(found).mapped()));
}

void StepTimes::act(Time now) {
  for (auto each = pending_.begin(); each != pending_.end();) {
    const Pending& pending = each->second;
    const bool over = pending.parts >= expected_ || now >= pending.since + kOverdue;
    if (!over && pending_.size() <= kMostPending) {
      ++each;
      continue;
    }
    Pending done = std::move(each->second);
    each = pending_.erase(each);
    complete(std::move(done));
  }
}

void StepTimes::complete(Pending pending) {
  CommonWait& wait = pending.wait;
  std::int64_t last = 0;
  for (const WaitPart& part : wait.parts)
    if (part.is_there) last = std::max(last, part.arrival_ns);
  for (std::size_t rank = 0; rank < wait.parts.size(); ++rank) {
    const WaitPart& part = wait.parts[rank];
    if (!part.is_there) continue;
    const auto number = static_cast<int>(rank);
    const std::int64_t split = std::min(part.release_ns, std::max(last, part.arrival_ns));
    if (split > part.arrival_ns) shown_.push_back({number, {Phase::wait, wait.step, part.arrival_ns, split}});
    if (part.release_ns > split)
      shown_.push_back({number, {Phase::wait, wait.step, split, part.release_ns}, true});
  }
  if (pending.parts < 2) return;  // nobody is late alone
  ++completed_;
  const auto behind = std::ranges::upper_bound(waits_, wait.step, {}, &CommonWait::step);
  const std::size_t most = std::clamp(kMostParts / wait.parts.size(), kLeastWaits, kMostWaits);
  waits_.insert(behind, std::move(wait));
  while (waits_.size() > most) waits_.pop_front();
}

}  // namespace rueda
