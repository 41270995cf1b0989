// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace rueda {
namespace {

static_assert(sizeof(FutexWord) == sizeof(std::uint32_t), "a futex is a plain word");
static_assert(FutexWord::is_always_lock_free, "processes share it");

// Not FUTEX_PRIVATE: the word may live in memory that processes share.
void futex(FutexWord& word, int operation, std::uint32_t value, const timespec* timeout) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void sleep_on(FutexWord& word, std::uint32_t value, std::chrono::nanoseconds longest) {
  const timespec timeout{static_cast<std::time_t>(longest.count() / 1'000'000'000),
                         static_cast<long>(longest.count() % 1'000'000'000)};
  futex(word, FUTEX_WAIT, value, &timeout);
}

void wake_all_on(FutexWord& word) { futex(word, FUTEX_WAKE, INT_MAX, nullptr); }

}  // namespace rueda
