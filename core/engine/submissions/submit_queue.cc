// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/submit_queue.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"

namespace rueda {

void SubmitQueue::push(std::span<Entry> entries) {
  // A thread that waits runs such operations itself: nobody has to be woken.
  const bool awaited = std::ranges::all_of(entries, [](const Entry& entry) {
    const Submission& submission = entry.submission();
    return submission.awaited && !submission.allocate && entry.request().device == DeviceKind::host;
  });
  std::unique_lock lock(mutex_);
  if (const Status closed = closed_; !closed.ok()) {
    lock.unlock();
    for (Entry& entry : entries) conclude(entry, closed);
    return;
  }
  throw_if_error(names_.take(entries));
  entries_.insert(entries_.end(), std::move_iterator(entries.begin()), std::move_iterator(entries.end()));
  any_.store(true);
  lock.unlock();
  if (!awaited) doorbell_->ring();
}

void SubmitQueue::take(std::vector<Entry>& entries) {
  if (empty()) return;
  std::lock_guard lock(mutex_);
  entries_.swap(entries);
  any_.store(false);
}

void SubmitQueue::close(Status why) {
  std::lock_guard lock(mutex_);
  if (closed_.ok()) closed_ = std::move(why);
}

Status SubmitQueue::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace rueda
