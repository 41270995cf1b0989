// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/submit_queue.h"

#include <iterator>

namespace rueda {

Status SubmitQueue::push(std::span<Entry> entries) {
  std::lock_guard lock(mutex_);
  if (!closed_.ok()) return closed_;
  if (Status taken = names_.take(entries); !taken.ok()) return taken;
  entries_.insert(entries_.end(), std::move_iterator(entries.begin()), std::move_iterator(entries.end()));
  any_.store(true);
  return {};
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

}  // namespace rueda
