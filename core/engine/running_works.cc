// SPDX-License-Identifier: Apache-2.0
#include "core/engine/running_works.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/engine/joined_contribution.h"

namespace rueda {
namespace {

// A turn costs as much as some steps of a Work, and many looks whether other ranks have come as far. So long
// it leaves all else to wait, ...
constexpr Duration kStretch = std::chrono::microseconds(50);
// ... and so often it looks at Works after a step, if they share memory: for some 2 us. Where they keep pace
// they are there by then.
constexpr int kLooks = 40;

}  // namespace

bool RunningWorks::room_for(const Plan& plan) const {
  return running_.size() < most_ &&
         (running_.empty() || plan.number < running_.front().plan.number + kPlansApart);
}

void RunningWorks::add(Plan&& plan, std::vector<Entry>&& entries) {
  Called& called = called_.emplace_back();
  called.plan = std::move(plan);
  called.entries = std::move(entries);
}

RunningWorks::Called* RunningWorks::next() {
  return called_.empty() || !room_for(called_.front().plan) ? nullptr : &called_.front();
}

void RunningWorks::start_next(Time now) {
  running_.splice(running_.end(), called_, called_.begin());
  Called& running = running_.back();
  running.moved = now;
  observer_.started(running.plan);
  for (const Entry& entry : running.entries) {
    entry.handle->begun = true;
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

void RunningWorks::fail(Called& running, const WorkFailure& failure) {
  if (running.failed) throw std::runtime_error(failure.what);  // it does not even run out
  running.failed = true;
  running.work->abandon();
  callbacks_.failed(running.plan, failure.what);
}

bool RunningWorks::step(Time now) {
  const bool looks = ring_bell();
  const bool begun = looks && !running_.empty() && running_.back().moved == now;
  bool moved = false;
  for (int in_vain = 0; !running_.empty() && in_vain < kLooks;) {
    const bool moves = step_each(now);
    moved |= moves;
    if (!moves && (!looks || (!moved && !begun))) break;
    if (moves && clock_now() - now > kStretch) break;
    in_vain = moves ? 0 : in_vain + static_cast<int>(running_.size());
  }
  return moved;
}

bool RunningWorks::step_each(Time now) {
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
    callbacks_.complete(running->entries, running->aborted);
    running = running_.erase(running);
    moved = true;
  }
  return moved;
}

bool RunningWorks::step(Called& running) {
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

void RunningWorks::abort(std::uint64_t plan, const Status& status) {
  auto number = [](const auto& each) { return each.plan.number; };
  const auto called = std::ranges::find(called_, plan, number);
  const auto running = std::ranges::find(running_, plan, number);
  // The first words count.
  if (called != called_.end() && called->aborted.ok()) called->aborted = status;
  if (running == running_.end() || !running->aborted.ok()) return;
  running->aborted = status;
  if (running->work) running->work->abandon();
}

void RunningWorks::end(const Status& status) {
  for (std::list<Called>* calls : {&running_, &called_}) {
    for (Called& called : *calls) {
      called.work.reset();
      callbacks_.complete(called.entries, status);
    }
    calls->clear();
  }
}

std::string_view RunningWorks::phase() const { return phase(running_.front()); }

std::string_view RunningWorks::phase(const Called& running) {
  return running.work ? running.work->phase() : "waiting to hear why another rank gave up";
}

std::optional<std::string_view> RunningWorks::phase_of(std::uint64_t plan) const {
  auto number = [](const auto& each) { return each.plan.number; };
  const auto running = std::ranges::find(running_, plan, number);
  return running == running_.end() ? std::nullopt : std::optional(phase(*running));
}

bool RunningWorks::ring_bell() const {
  return std::ranges::all_of(
      running_, [&](const Called& running) { return backends_[running.plan.backend]->rings_bell(); });
}

}  // namespace rueda
