// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace rueda {
namespace {

constexpr int kNobodyWatches = -1;

std::atomic<int> forks{0};
std::atomic<int> watched_since{kNobodyWatches};

}  // namespace

int forks_since_first_call() {
  static const bool counted =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); }) == 0;
  static_cast<void>(counted);
  return forks.load(std::memory_order_relaxed);
}

bool is_forked_child() {
  const int since = watched_since.load(std::memory_order_relaxed);
  return since != kNobodyWatches && since != forks_since_first_call();
}

void watch_for_forks() {
  int nobody = kNobodyWatches;
  watched_since.compare_exchange_strong(nobody, forks_since_first_call());
}

Status status_in_forked_child() {
  return Status::not_initialized(
      "This process was forked from one that uses Rueda, and cannot use it. Start workers before "
      "init(), or let them leave Rueda alone.");
}

}  // namespace rueda
