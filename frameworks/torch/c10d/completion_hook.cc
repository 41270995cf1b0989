// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/completion_hook.h"

#include <chrono>
#include <exception>
#include <utility>

#include "core/base/log.h"

namespace rueda {

void CompletionHook::watch(GroupWork& work) {
  {
    const std::lock_guard lock(mutex_);
    ++pending_;
  }
  const auto began = std::chrono::steady_clock::now();
  work.getFuture()->addCallback([hook = shared_from_this(), type = work.retrieveOpType(),
                                 number = work.getSequencenumber(), began](c10::ivalue::Future&) {
    const auto ended = std::chrono::steady_clock::now();
    hook->call(std::make_shared<c10d::WorkInfo>(type, number, began, ended, ended - began));
  });
}

void CompletionHook::call(std::shared_ptr<c10d::WorkInfo> info) {
  try {
    function_(std::move(info));
  } catch (const std::exception& error) {
    log(LogLevel::warning, "the completion hook of a group has failed: {}", error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    --pending_;
  }
  changed_.notify_all();
}

void CompletionHook::wait_for_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pending_ == 0; });
}

}  // namespace rueda
