// SPDX-License-Identifier: Apache-2.0
// A word by which other processes learn at once that a process has died.
#pragma once

#include <linux/futex.h>

#include <cstdint>
#include <span>

#include "core/base/system/descriptor.h"
#include "core/base/system/futex.h"

namespace rueda {

// Purpose: a word that a thread holds until it ends. The kernel marks the word in the end of the thread,
// before it frees the memory of the process: of a process with 1 GiB that is 70 ms earlier than its parent
// hears of it. Lies in memory that the processes share.
class RobustFutex {
 public:
  // By the holding thread, which must not use robust mutexes of the C library.
  void hold();
  bool is_held() const { return word_.load() != 0; }
  bool holder_has_died() const { return (word_.load() & FUTEX_OWNER_DIED) != 0; }

  static constexpr std::size_t kMostAwaited = 128;
  // Sleeps until one of the words changes from the value that it had in `values`, or is woken. There are
  // kMostAwaited words at most. False where this kernel cannot.
  static bool await_change(std::span<FutexWord* const> words, std::span<const std::uint32_t> values);
  FutexWord& word() { return word_; }

 private:
  robust_list node_;  // of the holding thread's list
  FutexWord word_;    // the holder; 0: nobody yet
};

// Purpose: a page of memory with one RobustFutex in it, which processes share by its descriptor.
class SharedRobustFutex {
 public:
  // A new one; null inside where there is no memory.
  SharedRobustFutex();
  // Another process's.
  explicit SharedRobustFutex(Descriptor file);
  SharedRobustFutex(const SharedRobustFutex&) = delete;
  SharedRobustFutex& operator=(const SharedRobustFutex&) = delete;
  ~SharedRobustFutex();

  const Descriptor& file() const { return file_; }
  void close_file() { file_.close(); }
  RobustFutex* get() const { return futex_; }

 private:
  void map();

  Descriptor file_;
  RobustFutex* futex_ = nullptr;
};

}  // namespace rueda
