// SPDX-License-Identifier: Apache-2.0
#include "core/engine/requested_timeline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <system_error>

#include "core/base/log.h"
#include "core/observe/training/training_record.h"

namespace rueda {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(1);  // at the steps
constexpr auto kLongestStep = std::chrono::seconds(60);       // as ruedarun has it, which waits for the file

std::atomic<const RequestedTimeline*> obeys{nullptr};

std::uint64_t steps_done() { return TrainingRecord::of_process().steps(); }

}  // namespace

// A request that was made before is not for this Runtime.
RequestedTimeline::RequestedTimeline(Timeline& timeline)
    : timeline_(timeline), page_(TimelineRequests::of_process().page()), seen_(page_.count()) {
  const RequestedTimeline* nobody = nullptr;
  obeys.compare_exchange_strong(nobody, this);
}

RequestedTimeline::~RequestedTimeline() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const RequestedTimeline* self = this;
  obeys.compare_exchange_strong(self, nullptr);
}

// One request at a time: another one waits until the thread is done, and no turn waits for that.
void RequestedTimeline::obey() {
  if (is_busy_.load(std::memory_order_acquire)) return;
  seen_ = page_.count();
  if (obeys.load() != this) return;
  const std::optional<TimelineRequest> request = page_.read();
  if (!request) return;
  if (thread_.joinable()) thread_.join();
  is_busy_ = true;
  try {
    thread_ = std::thread([this, wish = *request] {
      run(wish);
      is_busy_.store(false, std::memory_order_release);
    });
  } catch (const std::system_error& error) {
    is_busy_ = false;
    log(LogLevel::warning, "the timeline that ruedarun wants cannot be made: {}", error.code().message());
  }
}

bool RequestedTimeline::await_step(std::uint64_t step) {
  std::unique_lock lock(mutex_);
  auto moved_at = std::chrono::steady_clock::now();
  for (std::uint64_t before = steps_done(), now = before; now < step; now = steps_done()) {
    if (now != before) moved_at = std::chrono::steady_clock::now();
    before = now;
    if (ending_ || std::chrono::steady_clock::now() > moved_at + kLongestStep) return false;
    changed_.wait_for(lock, kBetweenLooks);
  }
  return !ending_;
}

// A request that comes late has its number of steps all the same.
void RequestedTimeline::run(const TimelineRequest& request) {
  if (!await_step(request.first)) return;
  const std::uint64_t late = std::max(steps_done(), request.first) - request.first;
  if (const Status started = timeline_.start(request.path, false); !started.ok()) {
    log(LogLevel::warning, "the timeline that ruedarun wants: {}", started.message);
    return;
  }
  await_step(request.last + late);
  if (const Status stopped = timeline_.stop(request.path); !stopped.ok())
    log(LogLevel::warning, "the timeline that ruedarun wants: {}", stopped.message);
}

}  // namespace rueda
