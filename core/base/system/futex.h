// SPDX-License-Identifier: Apache-2.0
// Sleeping on a word of memory until somebody says that it has changed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace rueda {

// May lie in memory that processes share.
using FutexWord = std::atomic<std::uint32_t>;

// Returns at once if the word is not `value`; else when it is woken, when a signal has come, or after
// `longest`: look at the word again.
void sleep_on(FutexWord& word, std::uint32_t value,
              std::chrono::nanoseconds longest = std::chrono::nanoseconds::max());
// Wakes all that sleep on the word.
void wake_all_on(FutexWord& word);

}  // namespace rueda
