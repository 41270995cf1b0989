// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace rueda {
namespace {

std::atomic<bool> forked{false};

}  // namespace

bool is_forked_child() { return forked.load(std::memory_order_relaxed); }

void watch_for_forks() {
  static const bool watched =
      pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); }) == 0;
  static_cast<void>(watched);
}

Status status_in_forked_child() {
  return Status::not_initialized(
      "This process was forked from one that uses Rueda, and cannot use it. Start workers before "
      "init(), or let them leave Rueda alone.");
}

}  // namespace rueda
