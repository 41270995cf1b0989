// SPDX-License-Identifier: Apache-2.0
#include "launcher/stacks/stopped_thread.h"

#include <elf.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace rueda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTries = 64;  // before the first pause
constexpr auto kPause = std::chrono::microseconds(200);
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kBelowPointer = 128;  // a function may use so many bytes there
constexpr std::size_t kMostPages = 1024;      // as many as one call takes

// Page by page: what is not mapped ends the copy, and what comes before it is there.
StackCopy copy_of(pid_t thread, std::uint64_t begin, std::size_t most) {
  StackCopy copy{.begin = begin, .bytes = std::vector<std::byte>(most)};
  std::vector<iovec> pages;
  for (std::uint64_t at = begin; at < begin + most && pages.size() < kMostPages;) {
    const std::uint64_t next = std::min(begin + most, (at / kPageBytes + 1) * kPageBytes);
    pages.push_back({reinterpret_cast<void*>(at), next - at});
    at = next;
  }
  const iovec own{copy.bytes.data(), copy.bytes.size()};
  const ssize_t read = ::process_vm_readv(thread, &own, 1, pages.data(), pages.size(), 0);
  copy.bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read)));
  return copy;
}

// A stop that was asked for, or that of a stopped process, has none.
int signal_to_deliver(pid_t thread) {
  siginfo_t about{};
  if (::ptrace(PTRACE_GETSIGINFO, thread, nullptr, &about) != 0) return 0;
  return about.si_code >> 8 == PTRACE_EVENT_STOP ? 0 : about.si_signo;
}

}  // namespace

StoppedThread::StoppedThread(pid_t thread, std::chrono::milliseconds limit) : thread_(thread) {
  const auto until = Clock::now() + limit;
  if (::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) != 0 ||
      ::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) {
    error_ = errno;
    return;
  }
  for (int i = 0; !read_registers(); ++i) {
    if (error_ != 0) return;
    if (Clock::now() >= until) {
      error_ = ETIMEDOUT;
      return;
    }
    if (i < kTries) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

StoppedThread::~StoppedThread() {
  if (error_ == 0 || error_ == ENOTSUP || error_ == ETIMEDOUT) let_go(thread_);
}

bool StoppedThread::let_go(pid_t thread) {
  const auto signal = static_cast<std::uintptr_t>(signal_to_deliver(thread));
  return ::ptrace(PTRACE_DETACH, thread, nullptr, reinterpret_cast<void*>(signal)) == 0;
}

// They can be read only of a thread that has stopped.
bool StoppedThread::read_registers() {
  iovec set{registers_.data(), sizeof registers_};
  if (::ptrace(PTRACE_GETREGSET, thread_, NT_PRSTATUS, &set) != 0) return false;
  if (set.iov_len != sizeof registers_) error_ = ENOTSUP;  // a program of 32 bits
  return error_ == 0;
}

StackCopy StoppedThread::stack(std::size_t most) const {
  StackCopy copy = copy_of(thread_, stack_pointer() - kBelowPointer, most);
  return copy.bytes.size() > kBelowPointer ? std::move(copy) : copy_of(thread_, stack_pointer(), most);
}

}  // namespace rueda
