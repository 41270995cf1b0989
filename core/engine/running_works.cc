// SPDX-License-Identifier: Apache-2.0
#include "core/engine/running_works.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/base/operation_traits.h"
#include "core/engine/joined_contribution.h"

namespace rueda {
namespace {

// A turn costs as much as several steps of a Work, or as many looks for other ranks. So step() keeps all else
// waiting for this time, ...
constexpr Duration kStretch = std::chrono::microseconds(50);
// ... and looks this often at Works after a step, if they share memory: for some 2 us. Other ranks that keep
// pace have come as far by then.
constexpr int kLooks = 40;

}  // namespace

void RunningWorks::add(Plan&& plan, std::vector<Entry>&& entries) {
  Called& called = called_.emplace_back();
  called.plan = std::move(plan);
  called.entries = std::move(entries);
}

// Messages of Plans that are far apart would look alike.
bool RunningWorks::can_start() const {
  if (called_.empty() || running_.size() >= most_) return false;
  return running_.empty() || called_.front().plan.number < running_.front().plan.number + kPlansApart;
}

// Starts the next Plan in order. If the Plan has failed already, its Work takes part all the same, so that
// other ranks come to the end of their Works.
void RunningWorks::start(Time now) {
  Called& called = called_.front();
  const bool needs_work =
      !called.entries.empty() && called.plan.status.ok() && traits(called.plan.operation).moves_data;
  if (!needs_work) {
    callbacks_.complete(called.plan, called.entries, called.plan.status);
    return called_.pop_front();
  }
  running_.splice(running_.end(), called_, called_.begin());
  called.moved = now;
  observer_.started(called.plan, now);
  for (const Entry& entry : called.entries) {
    entry.handle->begun = true;
    if (!entry.joined) observer_.started(entry.flight);
  }
  std::optional<WorkFailure> failure;
  try {
    for (Entry& entry : called.entries) {
      if (entry.joined && called.aborted.ok()) give_memory(entry);
    }
  } catch (WorkFailure& caught) {
    failure = std::move(caught);
  }
  called.work = backends_.at(called.plan.backend)->start(called.plan, called.entries);
  if (!called.aborted.ok()) called.work->abandon();
  if (failure) fail(called, *failure);
}

void RunningWorks::fail(Called& running, const WorkFailure& failure) {
  if (running.failed) throw std::runtime_error(failure.what);  // it does not even run out
  running.failed = true;
  running.work->abandon();
  callbacks_.failed(running.plan, failure);
}

bool RunningWorks::step(Time now) {
  bool started = false;
  for (; can_start(); started = true) start(now);
  const bool looks = ring_doorbell();
  const bool begun = looks && !running_.empty() && running_.back().moved == now;
  bool moved = false;
  for (int in_vain = 0; !running_.empty() && in_vain < kLooks;) {
    bool moves = false;
    for (auto running = running_.begin(); running != running_.end();) {
      if (running->work) {
        observer_.doing(running->plan, running->work->phase());
        Work::Step step = Work::Step::again;
        try {
          step = running->work->step();
        } catch (const WorkFailure& failure) {
          fail(*running, failure);
        }
        if (step == Work::Step::done || step == Work::Step::given_up) {
          running->done = step == Work::Step::done;
          finish(*running);
        }
        if (step != Work::Step::waiting) {
          running->moved = now;
          moves = true;
        }
      }
      if (running->work || (!running->done && running->aborted.ok())) {
        ++running;
        continue;
      }
      callbacks_.complete(running->plan, running->entries, running->aborted);
      running = running_.erase(running);
      moves = true;
    }
    moved |= moves;
    if (!moves && (!looks || (!moved && !begun))) break;
    if (moves && clock_now() - now > kStretch) break;
    in_vain = moves ? 0 : in_vain + static_cast<int>(running_.size());
  }
  return started || moved;
}

void RunningWorks::finish(Called& running) {
  if (!running.done) {
    running.work.reset();
    return observer_.finished(running.plan);
  }
  const Backend& backend = *backends_[running.plan.backend];
  EndedPlan ended{.route = running.work->route(), .backend = backend.name()};
  running.work.reset();
  for (const Entry& entry : running.entries)
    ended.bytes += entry.joined ? static_cast<std::uint64_t>(bytes_of(entry.request())) : entry.flight.bytes;
  if (const double seconds = backend.predicted_seconds(running.plan); seconds > 0)
    ended.predicted = std::llround(seconds * 1e9);
  observer_.finished(running.plan, ended);
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
      callbacks_.complete(called.plan, called.entries, status);
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

bool RunningWorks::ring_doorbell() const {
  return std::ranges::all_of(
      running_, [&](const Called& running) { return backends_[running.plan.backend]->rings_doorbell(); });
}

}  // namespace rueda
