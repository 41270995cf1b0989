// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/coalesced_works.h"

#include <utility>

namespace rueda {
namespace {

// Unlike the number of the system, no later thread has it again.
std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> threads{0};
  static thread_local const std::uint64_t own = threads.fetch_add(1);
  return own;
}

}  // namespace

// Returns what was noted before. The caller drops it without the mutex, as tensors of Python may be the last.
CoalescedWorks::Works CoalescedWorks::exchange(bool coalesces) {
  const std::lock_guard lock(mutex_);
  Works before;
  if (const auto found = works_.find(this_thread()); found != works_.end()) {
    before = std::move(found->second);
    works_.erase(found);
  }
  if (coalesces) works_.try_emplace(this_thread());
  threads_.store(works_.size());
  return before;
}

void CoalescedWorks::begin() { exchange(true); }

CoalescedWorks::Works CoalescedWorks::end() { return exchange(false); }

bool CoalescedWorks::here() const {
  if (threads_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(mutex_);
  return works_.contains(this_thread());
}

bool CoalescedWorks::note(const c10::intrusive_ptr<GroupWork>& work) {
  if (threads_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(mutex_);
  const auto found = works_.find(this_thread());
  if (found == works_.end()) return false;
  found->second.push_back(work);
  return true;
}

}  // namespace rueda
