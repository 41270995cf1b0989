// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/pending_operation.h"

#include <algorithm>

#include "core/base/wait_check.h"

namespace rueda {

void LaterHandle::set(Handle handle, int source) {
  {
    const std::lock_guard lock(mutex_);
    handle_ = std::move(handle);
    source_ = source;
    known_ = true;
  }
  changed_.notify_all();
}

void LaterHandle::fail(Status why) {
  {
    const std::lock_guard lock(mutex_);
    status_ = std::move(why);
    known_ = true;
  }
  changed_.notify_all();
}

bool LaterHandle::known_by(Time deadline) {
  RegularLooks looks;
  std::unique_lock lock(mutex_);
  while (!known_ && clock_now() < deadline) {
    changed_.wait_until(lock, std::min(deadline, clock_now() + kCheckEvery));
    if (known_) break;
    lock.unlock();
    looks.look_if_due();
    lock.lock();
  }
  return known_;
}

bool PendingOperation::ends_by(Time deadline) const {
  if (!later_) return handle_.wait_until(deadline);
  return later_->known_by(deadline) && (!later_->status().ok() || later_->handle().wait_until(deadline));
}

bool PendingOperation::done() const {
  if (!later_) return handle_.done();
  return later_->known_by(Time::min()) && (!later_->status().ok() || later_->handle().done());
}

std::string PendingOperation::missing_ranks() const {
  if (!later_) return handle_.missing_ranks();
  return later_->known_by(Time::min()) ? later_->handle().missing_ranks() : std::string();
}

Status PendingOperation::status() const {
  if (!later_) return handle_.wait_status();
  return later_->status().ok() ? later_->handle().wait_status() : later_->status();
}

}  // namespace rueda
