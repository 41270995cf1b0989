// SPDX-License-Identifier: Apache-2.0
// A function of the program that hears of each operation's end.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "frameworks/torch/c10d/group_work.h"

namespace rueda {

// Purpose: calls the function once for each operation that it watches, on the thread that notices the end.
// Any thread; guarded by its mutex. Held by shared_ptr, so that operations may end after their group.
class CompletionHook : public std::enable_shared_from_this<CompletionHook> {
 public:
  using Function = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;

  explicit CompletionHook(Function function) : function_(std::move(function)) {}

  // Called once for each operation, after it has begun.
  void watch(GroupWork& work);
  // Returns when the function has been called for all of them. Without Python's lock.
  void wait_for_all();

 private:
  void call(std::shared_ptr<c10d::WorkInfo> info);

  const Function function_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t pending_ = 0;
};

}  // namespace rueda
