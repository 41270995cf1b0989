// SPDX-License-Identifier: Apache-2.0
#include "core/engine/works.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/engine/ghost.h"

namespace rueda {
namespace {

// A turn costs as much as some steps of a Work, and many looks whether other ranks have come as far. So long
// it leaves all else to wait, ...
constexpr Duration kStretch = std::chrono::microseconds(50);
// ... and so long it looks for others after a step, if they share memory: where they keep pace they are there
// by then.
constexpr Duration kLooks = std::chrono::microseconds(2);

}  // namespace

bool Works::room_for(const Plan& plan) const {
  return running_.size() < most_ &&
         (running_.empty() || plan.number < running_.front().plan.number + kPlansApart);
}

std::optional<Works::Called> Works::next() {
  if (called_.empty() || !room_for(called_.front().plan)) return std::nullopt;
  Called called = std::move(called_.front());
  called_.pop_front();
  return called;
}

void Works::start(Called called, Time now) {
  Running& running = running_.emplace_back();
  running.moved = now;
  running.plan = std::move(called.plan);
  running.entries = std::move(called.entries);
  running.aborted = std::move(called.aborted);
  observer_.started(running.plan);
  for (const Entry& entry : running.entries) {
    if (!entry.ghost) observer_.started(entry.flight);
  }
  std::optional<WorkFailure> failure;
  try {
    for (Entry& entry : running.entries) {
      if (entry.ghost && running.aborted.ok()) give_memory(entry);
    }
  } catch (WorkFailure& caught) {
    failure = std::move(caught);
  }
  running.work = backends_.at(running.plan.backend)->start(running.plan, running.entries);
  if (!running.aborted.ok()) running.work->abandon();
  if (failure) fail(running, *failure);
}

void Works::fail(Running& running, const WorkFailure& failure) {
  if (running.failed) throw std::runtime_error(failure.what);  // it does not even run out
  running.failed = true;
  running.work->abandon();
  callbacks_.failed(running.plan, failure.what);
}

bool Works::step(Time now) {
  const bool looks = ring_bell();
  const bool begun = looks && !running_.empty() && running_.back().moved == now;
  bool moved = false;
  Time last = now;
  while (!running_.empty()) {
    const bool moves = step_each(now);
    moved |= moves;
    if (!moved && !begun) break;
    const Time passed = clock_now();
    if (moves) last = passed;
    if (passed - now > kStretch || (!moves && (!looks || passed - last > kLooks))) break;
  }
  return moved;
}

bool Works::step_each(Time now) {
  bool moved = false;
  for (auto running = running_.begin(); running != running_.end();) {
    if (running->work && step(*running)) {
      running->moved = now;
      moved = true;
    }
    if (running->work || (!running->done && running->aborted.ok())) {
      ++running;
      continue;
    }
    for (Entry& entry : running->entries) callbacks_.complete(entry, running->aborted);
    running = running_.erase(running);
    moved = true;
  }
  return moved;
}

bool Works::step(Running& running) {
  observer_.doing(running.plan, running.work->phase());
  Work::Step step{};
  try {
    step = running.work->step();
  } catch (const WorkFailure& failure) {
    fail(running, failure);
    return true;
  }
  if (step == Work::Step::done || step == Work::Step::given_up) {
    running.done = step == Work::Step::done;
    running.work.reset();
    observer_.finished(running.plan);
  }
  return step != Work::Step::waiting;
}

void Works::abort(std::uint64_t plan, const Status& status) {
  auto number = [](const auto& each) { return each.plan.number; };
  const auto called = std::ranges::find(called_, plan, number);
  const auto running = std::ranges::find(running_, plan, number);
  // The first words count.
  if (called != called_.end() && called->aborted.ok()) called->aborted = status;
  if (running == running_.end() || !running->aborted.ok()) return;
  running->aborted = status;
  if (running->work) running->work->abandon();
}

void Works::end(const Status& status) {
  for (Running& running : running_) {
    running.work.reset();
    for (Entry& entry : running.entries) callbacks_.complete(entry, status);
  }
  for (Called& called : called_) {
    for (Entry& entry : called.entries) callbacks_.complete(entry, status);
  }
  running_.clear();
  called_.clear();
}

std::string_view Works::phase() const { return phase(running_.front()); }

std::string_view Works::phase(const Running& running) {
  return running.work ? running.work->phase() : "waiting to hear why another rank gave up";
}

std::optional<std::string_view> Works::phase_of(std::uint64_t plan) const {
  auto number = [](const auto& each) { return each.plan.number; };
  const auto running = std::ranges::find(running_, plan, number);
  return running == running_.end() ? std::nullopt : std::optional(phase(*running));
}

bool Works::ring_bell() const {
  return std::ranges::all_of(
      running_, [&](const Running& running) { return backends_[running.plan.backend]->rings_bell(); });
}

}  // namespace rueda
