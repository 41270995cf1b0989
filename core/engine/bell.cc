// SPDX-License-Identifier: Apache-2.0
#include "core/engine/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace rueda {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "a futex is a plain word");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "processes share it");

// Not FUTEX_PRIVATE: the word may live in memory that processes share.
void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void Bell::ring() {
  // Whoever ends the sleep counts its ring after that, and so wakes even one that has begun to sleep anew.
  if (word_->sleeping.load() != 0 && word_->sleeping.exchange(0) != 0) wake();
}

void Bell::wake() {
  word_->rings.fetch_add(1);
  futex(word_->rings, FUTEX_WAKE, INT_MAX, nullptr);
}

std::uint32_t Bell::listen() {
  const std::uint32_t before = heard();
  word_->sleeping.store(1);
  return before;
}

void Bell::stay_awake() { word_->sleeping.store(0); }

void Bell::sleep(std::uint32_t heard, std::chrono::nanoseconds longest) {
  const timespec timeout{static_cast<std::time_t>(longest.count() / 1'000'000'000),
                         static_cast<long>(longest.count() % 1'000'000'000)};
  futex(word_->rings, FUTEX_WAIT, heard, &timeout);
  word_->sleeping.store(0);
}

}  // namespace rueda
