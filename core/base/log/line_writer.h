// SPDX-License-Identifier: Apache-2.0
// Writes lines to a stream that may block, from a thread that may.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace rueda {

// Purpose: gives lines to a descriptor in the order of the calls, on a thread of its own. That thread starts
// with the first line. So a pipe which nobody reads stops this thread only. Any thread may write. In a child
// after fork() the object begins anew, without lines.
//
// A caller that waits a moment for its line keeps the order of lines and other output of the program. While
// the stream is blocked no caller waits. At most kMostBytes wait then. The oldest lines make room for newer
// ones, and a line in their place tells the number of lines that are missing.
class LineWriter {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{256} << 10;
  static constexpr auto kMoment = std::chrono::milliseconds(100);

  explicit LineWriter(int descriptor) : descriptor_(descriptor) {}
  // Drops lines that the stream does not take at once.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Takes a text of whole lines.
  void add(std::string line);
  // Waits until all lines are written, at most for kMoment.
  void wait_a_moment();
  // Waits until all lines are written, at most for `limit`. Returns false if some are not.
  bool flush(std::chrono::milliseconds limit);

  // For pthread_atfork: no thread of this process holds the lock in a child.
  void before_fork() { mutex_.lock(); }
  void after_fork_in_parent() { mutex_.unlock(); }
  void after_fork_in_child();

 private:
  void drop_oldest();
  void start();
  void run();
  std::string take();
  void put(std::string_view text);
  bool is_ended();

  const int descriptor_;
  std::mutex mutex_;  // guards all below
  std::condition_variable lines_came_;
  std::condition_variable lines_went_;
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  std::uint64_t pushed_ = 0;   // lines so far
  std::uint64_t gone_ = 0;     // of these, written or dropped
  std::uint64_t dropped_ = 0;  // since the last note of it
  bool blocked_ = false;       // a call has waited in vain, and nothing was written since
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace rueda
