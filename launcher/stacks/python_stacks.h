// SPDX-License-Identifier: Apache-2.0
// A Python process tells the stacks of its threads (its side: python/rueda/common/stacks.py).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: a signal to a thread of a process makes Python's faulthandler write the stack of that thread into
// a file in memory, which the process has given to its agent. It works where the process hangs in native
// code. The process may be any program by now: all is checked. A process that handles the signal and writes
// nothing gets no other one. One thread uses it at a time.
class PythonStacks {
 public:
  // Null where `file` is no file in memory, `signal` no real-time signal, `number` no descriptor, or the
  // process has ended. `number`: of the file in that process.
  static std::shared_ptr<PythonStacks> of(pid_t process, int signal, Descriptor file, int number);

  pid_t process() const { return process_; }
  // It runs, and the same program as at first.
  bool is_alive() const;

  struct Answer {
    std::vector<std::string> frames{};  // "function (file:line)", the innermost first
    std::string problem{};              // in words; empty: none
  };
  // Of one thread; waits for that time at most. A thread without Python has no frames.
  Answer ask(pid_t thread, std::chrono::milliseconds limit);

  // The parts of ask(). The problem in words; empty: the thread may get its signal.
  std::string prepare(pid_t thread);
  // False where it has ended. A thread that stands still writes its stack as soon as it goes on.
  bool send(pid_t thread);
  Answer take(pid_t thread, std::chrono::milliseconds limit);

 private:
  // What a thread has done with its signal.
  enum class Handler { runs, wrote, wrote_nothing, ended };

  PythonStacks(pid_t process, int signal, Descriptor file, int number, Descriptor handle,
               std::string program);
  std::uint64_t bit() const { return std::uint64_t{1} << (signal_ - 1); }
  bool has_text() const;
  bool has_file() const;
  std::string text() const;
  std::string problem_before(pid_t thread);
  Handler handler_of(pid_t thread) const;
  std::string problem_after(pid_t thread, std::chrono::milliseconds limit);
  std::string own_handler() const;

  pid_t process_;
  int signal_;
  Descriptor file_;
  int number_;                  // of the file, in the process
  Descriptor handle_;           // a pidfd
  std::string program_;         // its path
  std::optional<pid_t> asked_;  // its handler may still write
  bool is_mute_ = false;        // it has handled a signal and written nothing
};

// Of a text that faulthandler has written for one thread.
std::vector<std::string> frames_of_faulthandler(const std::string& text);

}  // namespace rueda
