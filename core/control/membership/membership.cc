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

std::optional<Time> after(std::optional<Time> since, Duration later) {
  return since ? std::optional(*since + later) : std::nullopt;
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
  } else if (!has_been_in_.contains(worker) && !generation_.workers.contains(worker) &&
             !retiring_.contains(worker)) {
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
  retiring_.remove(RankSet::of(worker));
  broken_.by_loss |= present_.contains(worker);
  present_.remove(RankSet::of(worker));
}

void Membership::retire(Worker worker) {
  retiring_.add(RankSet::of(worker));
  waiting_.remove(retiring_);
}

// Others may be about to form the generation with it.
void Membership::finished(Worker worker) {
  waiting_.remove(RankSet::of(worker));
  retiring_.remove(RankSet::of(worker));
  if (!present_.contains(worker)) return;
  present_.remove(RankSet::of(worker));
  broken_.by_early_end |= unformed_.contains(worker);
  some_finished_ = true;
}

void Membership::give_up(std::string why) {
  if (failure_.empty()) failure_ = std::move(why);
}

Membership::Due Membership::change_due() const {
  if (!takes_more() || !has_formed()) return {};
  const RankSet next = next_workers();
  return {.joiners = !(next - present_).empty(), .leavers = !(present_ - next).empty()};
}

bool Membership::keeps_state(const RankSet& members) const {
  return with_state_.empty() || !(members & with_state_).empty();
}

// Members that are to retire stay as long as the job cannot do without them, and take no place of others.
RankSet Membership::next_workers() const {
  const RankSet staying = present_ - retiring_;
  RankSet coming;
  if (!some_finished_) coming = first_of(waiting_, limits_.most - staying.count());
  const bool can_do_without =
      !staying.empty() && keeps_state(staying) && staying.count() + coming.count() >= limits_.least;
  RankSet next = can_do_without ? staying : present_;
  next.add(coming);
  return next;
}

bool Membership::is_at_limit() const {
  return limits_.resets && generation_.number >= static_cast<std::uint64_t>(*limits_.resets);
}

bool Membership::is_due(Time now) const {
  const bool all_have_left = since_.leaving && gone_from_.contains(present_);
  const bool wait_for_an_end = broken_.by_early_end && !(arrived_ & present_).empty();
  return broken_.by_loss || wait_for_an_end || is_short() || all_have_left ||
         (since_.leaving && now >= *since_.leaving + kLeaving) ||
         (since_.meeting && now >= *since_.meeting + meeting_time());
}

std::optional<Generation> Membership::decide(Time now) {
  if (!failure_.empty() || is_over() || !is_due(now)) return std::nullopt;
  const RankSet workers = next_workers();
  return goes_on_with(workers, now) ? std::optional(make_generation(workers, now)) : std::nullopt;
}

// Else the job has failed, or it waits for others.
bool Membership::goes_on_with(const RankSet& workers, Time now) {
  if (present_.empty() || !keeps_state(present_)) {
    const bool none_is_left = present_.empty() && waiting_.empty();
    give_up(some_finished_ ? "the others have finished"
            : none_is_left ? "no worker is left"
                           : "no worker with the state of training is left");
  } else if (is_at_limit()) {
    give_up(fmt::format("reset limit {} exceeded", *limits_.resets));
  } else if (workers.count() < limits_.least) {
    if (!since_.few) since_.few = now;
    if (some_finished_)
      give_up(fmt::format("others have finished, and {} of at least {} workers are left", workers.count(),
                          limits_.least));
    else if (now >= *since_.few + limits_.timeout)
      give_up(fmt::format("{} of at least {} workers are there, and no more have come within {:.0f} s",
                          workers.count(), limits_.least,
                          std::chrono::duration<double>(limits_.timeout).count()));
    return false;
  }
  return failure_.empty();
}

Generation Membership::make_generation(const RankSet& workers, Time now) {
  arrived_ = gone_from_ & workers;  // the others say again that they are ready
  arrived_.add(waiting_ & workers);
  generation_ = {generation_.number + 1, workers};
  present_ = unformed_ = workers;
  waiting_.remove(workers);
  gone_from_ = {};
  broken_ = {};
  since_ = {.forming = now};
  if (arrived_.contains(workers)) since_.meeting = now;
  return generation_;
}

RankSet Membership::take_silent(Time now) {
  if (!since_.forming || now < *since_.forming + limits_.timeout) return {};
  since_.forming = now;
  return (unformed_ & present_) - arrived_;
}

std::optional<Time> Membership::due() const {
  std::optional<Time> next;
  if (!failure_.empty()) return next;
  if (!is_short()) next = earlier(after(since_.leaving, kLeaving), after(since_.meeting, meeting_time()));
  next = earlier(next, after(since_.forming, limits_.timeout));
  return earlier(next, after(since_.few, limits_.timeout));
}

}  // namespace rueda
