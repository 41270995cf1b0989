// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submit_queue.h"

namespace rueda {

Status SubmitQueue::push(Entry&& entry) {
  std::lock_guard lock(mutex_);
  if (closed_.ok()) entries_.push_back(std::move(entry));
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
