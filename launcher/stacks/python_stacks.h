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
// code. The process may be any program by now: all is checked. One thread uses it at a time.
class PythonStacks {
 public:
  // Null where `file` is no file in memory, `signal` no real-time signal, or the process has ended.
  static std::shared_ptr<PythonStacks> of(pid_t process, int signal, Descriptor file);

  pid_t process() const { return process_; }
  // It runs, and the same program as at first.
  bool is_alive() const;

  struct Answer {
    std::vector<std::string> frames{};  // "function (file:line)", the innermost first
    std::string problem{};              // in words; empty: none
  };
  // Of one thread; waits for that time at most. A thread without Python has no frames.
  Answer ask(pid_t thread, std::chrono::milliseconds limit) const;

 private:
  PythonStacks(pid_t process, int signal, Descriptor file, Descriptor handle, std::string program);
  bool has_text() const;
  std::string text() const;
  bool has_handled(pid_t thread, std::chrono::milliseconds limit) const;

  pid_t process_;
  int signal_;
  Descriptor file_;
  Descriptor handle_;    // a pidfd
  std::string program_;  // its path
};

// Of a text that faulthandler has written for one thread.
std::vector<std::string> frames_of_faulthandler(const std::string& text);

}  // namespace rueda
