// SPDX-License-Identifier: Apache-2.0
#include "core/engine/background_thread.h"

#include "core/base/wait_check.h"
#include "core/engine/job_start.h"

namespace rueda {

void BackgroundThread::wait_for_start(const std::future<Welcome>& started) {
  const WaitCheck* check = wait_check_here();
  while (check != nullptr && started.wait_for(kCheckEvery) != std::future_status::ready) {
    std::unique_lock lock(mutex_);
    if (begun_) return;
    try {
      check->look();
    } catch (...) {
      shared_.unwanted.store(true);
      lock.unlock();
      shared_.doorbell->ring();
      join();
      throw;
    }
  }
}

bool BackgroundThread::begin() {
  std::lock_guard lock(mutex_);
  begun_ = !shared_.unwanted.load();
  return begun_;
}

void BackgroundThread::end(const Status& failure) {
  shared_.ended.store(true);
  std::lock_guard lock(mutex_);
  failure_ = failure;
}

Status BackgroundThread::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void BackgroundThread::wait_for_end() const {
  if (running()) wait_for_future(ended_);
}

bool BackgroundThread::ends_within(Duration longest) const {
  return !running() || wait_for_future(ended_, clock_now() + longest);
}

}  // namespace rueda
