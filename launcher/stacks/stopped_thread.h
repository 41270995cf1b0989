// SPDX-License-Identifier: Apache-2.0
// A thread of another process that stands still for a moment.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rueda {

// The registers of a thread on x86-64, in the order of the kernel (struct user_regs_struct).
using Registers = std::array<std::uint64_t, 27>;

// A copy of the upper end of a stack.
struct StackCopy {
  std::uint64_t begin = 0;  // the address of the first byte
  std::vector<std::byte> bytes;
};

// Purpose: stops a thread without a signal, and lets it go on where it was. A thread that was stopped stays
// so, and a signal that comes meanwhile arrives. The kernel lets it go when the tracing thread ends, whatever
// ends it. Nobody has to wait() for the stop: the agent's loop may take that news. Owned by one thread. A
// thread that could not be stopped in time may stop later: let_go(), or the end of the tracing thread, frees
// it.
class StoppedThread {
 public:
  // Waits for the stop, for that time at most.
  StoppedThread(pid_t thread, std::chrono::milliseconds limit);
  StoppedThread(const StoppedThread&) = delete;
  StoppedThread& operator=(const StoppedThread&) = delete;
  ~StoppedThread();

  // Whether it stood still and goes on. By the thread that has traced it.
  static bool let_go(pid_t thread);

  // 0: it stands still. EPERM: not allowed. ESRCH: it has ended. ETIMEDOUT: the kernel cannot stop it now.
  int error() const { return error_; }
  const Registers& registers() const { return registers_; }
  // From its stack pointer on, that many bytes at most.
  StackCopy stack(std::size_t most) const;
  std::uint64_t program_counter() const { return registers_[kProgramCounter]; }
  std::uint64_t stack_pointer() const { return registers_[kStackPointer]; }

 private:
  static constexpr std::size_t kProgramCounter = 16, kStackPointer = 19;

  bool read_registers();

  pid_t thread_;
  int error_ = 0;
  Registers registers_{};
};

}  // namespace rueda
