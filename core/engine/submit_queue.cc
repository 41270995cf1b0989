// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submit_queue.h"

#include <utility>

namespace rueda {

Status SubmitQueue::push(Entry&& entry) {
  std::lock_guard lock(mutex_);
  if (closed_.ok()) entries_.push_back(std::move(entry));
  return closed_;
}

std::vector<Entry> SubmitQueue::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(entries_, {});
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
