// SPDX-License-Identifier: Apache-2.0
#include "core/control/membership/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace rueda {
namespace {

// Those with the lowest numbers.
RankSet first_of(const RankSet& workers, Rank count) {
  RankSet chosen;
  for (const auto& [first, end] : workers.ranges()) {
    const Rank wanted = std::min<Rank>(end - first, count - chosen.count());
    chosen.add(first, first + wanted);
  }
  return chosen;
}

void bring_forward(std::optional<Time>& time, std::optional<Time> other, Duration later) {
  if (other) time = std::min(time.value_or(*other + later), *other + later);
}

}  // namespace

Membership::Membership(const Limits& limits, Rank first)
    : limits_(limits),
      generation_{0, RankSet(0, first)},
      present_(generation_.workers),
      unformed_(generation_.workers) {}

// A member that has tried the present generation already needs another one.
void Membership::ready(Worker worker, std::optional<std::uint64_t> tried, Time now) {
  const RankSet one = RankSet::of(worker);
  if (present_.contains(worker)) {
    if (tried == generation_.number) {
      gone_from_.add(one);
      if (!since_.leaving) since_.leaving = now;
    } else {
      arrived_.add(one);
      if (!since_.forming) since_.forming = now;
      if (!since_.meeting && arrived_.contains(unformed_ & present_)) since_.meeting = now;
    }
  } else if (!has_been_in_.contains(worker) && !generation_.workers.contains(worker)) {
    waiting_.add(one);
  }
}

void Membership::formed(Worker worker, std::uint64_t generation) {
  if (generation != generation_.number || !present_.contains(worker)) return;
  has_been_in_.add(RankSet::of(worker));
  unformed_.remove(RankSet::of(worker));
  if (!unformed_.empty()) return;
  since_.forming.reset();
  since_.meeting.reset();
}

void Membership::has_state(Worker worker) {
  if (present_.contains(worker)) with_state_.add(RankSet::of(worker));
}

void Membership::lost(Worker worker) {
  waiting_.remove(RankSet::of(worker));
  has_lost_ |= present_.contains(worker);
  present_.remove(RankSet::of(worker));
}

// Others may be about to form the generation with it.
void Membership::finished(Worker worker) {
  waiting_.remove(RankSet::of(worker));
  if (!present_.contains(worker)) return;
  present_.remove(RankSet::of(worker));
  ended_early_ |= unformed_.contains(worker);
  some_finished_ = true;
}

void Membership::give_up(std::string why) {
  if (failure_.empty()) failure_ = std::move(why);
}

bool Membership::joiners_wait() const {
  return takes_more() && has_formed() && !waiting_.empty() && present_.count() < limits_.most;
}

bool Membership::is_at_limit() const {
  return limits_.resets && generation_.number >= static_cast<std::uint64_t>(*limits_.resets);
}

bool Membership::is_due(Time now) const {
  const bool all_have_left = since_.leaving && gone_from_.contains(present_);
  const bool wait_for_an_end = ended_early_ && !(arrived_ & present_).empty();
  return has_lost_ || wait_for_an_end || is_short() || all_have_left ||
         (since_.leaving && now >= *since_.leaving + kLeaving) ||
         (since_.meeting && now >= *since_.meeting + kMeeting);
}

std::optional<Generation> Membership::decide(Time now) {
  if (!failure_.empty() || is_over() || !is_due(now)) return std::nullopt;
  return make_generation(now);
}

std::optional<Generation> Membership::make_generation(Time now) {
  const bool state_is_lost = !with_state_.empty() && (present_ & with_state_).empty();
  if (present_.empty() || state_is_lost) {
    give_up(some_finished_  ? "the others have finished"
            : state_is_lost ? "no worker with the state of training is left"
                            : "no worker is left");
    return std::nullopt;
  }
  RankSet workers = present_;
  if (!some_finished_) workers.add(first_of(waiting_, limits_.most - present_.count()));
  if (workers.count() < limits_.least) {
    if (!since_.few) since_.few = now;
    const double patience = std::chrono::duration<double>(limits_.patience).count();
    if (some_finished_)
      give_up(fmt::format("others have finished, and {} of at least {} workers are left", workers.count(),
                          limits_.least));
    else if (now >= *since_.few + limits_.patience)
      give_up(fmt::format("{} of at least {} workers are there, and no more have come within {:.0f} s",
                          workers.count(), limits_.least, patience));
    return std::nullopt;
  }
  if (is_at_limit()) {
    give_up(fmt::format("reset limit {} exceeded", *limits_.resets));
    return std::nullopt;
  }
  arrived_ = gone_from_ & workers;  // the others say again that they are ready
  arrived_.add(waiting_ & workers);
  generation_ = {generation_.number + 1, workers};
  present_ = unformed_ = workers;
  waiting_.remove(workers);
  gone_from_ = {};
  has_lost_ = ended_early_ = false;
  since_ = {.forming = now};
  if (arrived_.contains(workers)) since_.meeting = now;
  return generation_;
}

RankSet Membership::take_silent(Time now) {
  if (!since_.forming || now < *since_.forming + limits_.patience) return {};
  since_.forming = now;
  return (unformed_ & present_) - arrived_;
}

std::optional<Time> Membership::due() const {
  std::optional<Time> next;
  if (!failure_.empty()) return next;
  if (!is_short()) bring_forward(next, since_.leaving, kLeaving);
  if (!is_short()) bring_forward(next, since_.meeting, kMeeting);
  bring_forward(next, since_.forming, limits_.patience);
  bring_forward(next, since_.few, limits_.patience);
  return next;
}

}  // namespace rueda
