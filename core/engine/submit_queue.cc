// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submit_queue.h"

#include <iterator>

namespace rueda {

Status SubmitQueue::push(std::span<Entry> entries) {
  std::lock_guard lock(mutex_);
  if (closed_.ok())
    entries_.insert(entries_.end(), std::move_iterator(entries.begin()), std::move_iterator(entries.end()));
  return closed_;
}

void SubmitQueue::take(std::vector<Entry>& entries) {
  std::lock_guard lock(mutex_);
  entries_.swap(entries);
}

bool SubmitQueue::empty() {
  std::lock_guard lock(mutex_);
  return entries_.empty();
}

void SubmitQueue::close(Status why) {
  std::lock_guard lock(mutex_);
  if (closed_.ok()) closed_ = std::move(why);
}

}  // namespace rueda
