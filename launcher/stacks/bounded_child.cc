// SPDX-License-Identifier: Apache-2.0
#include "launcher/stacks/bounded_child.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <system_error>

#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kUntilEnded = std::chrono::seconds(1);  // after SIGKILL
constexpr int kPauseMs = 10;

void close_all_but(int descriptor) {
  const auto kept = static_cast<unsigned>(descriptor);
  if (kept > 0) ::close_range(0, kept - 1, 0);
  ::close_range(kept + 1, std::numeric_limits<unsigned>::max(), 0);
}

[[noreturn]] void work(pid_t parent, const std::function<void(int)>& body, int descriptor) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::prctl(PR_SET_NAME, "rueda-stacks");
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);  // a crash is expected
  close_all_but(descriptor);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
  try {
    body(descriptor);
  } catch (const std::exception&) {  // what has been written counts
  }
  ::_exit(0);
}

// Without a handle: the number is the child's as long as nobody has waited for it.
void kill_child(pid_t child, const Descriptor& handle) {
  siginfo_t about{};
  if (handle)
    ::syscall(SYS_pidfd_send_signal, handle.number(), SIGKILL, nullptr, 0);
  else if (::waitid(P_PID, static_cast<id_t>(child), &about, WEXITED | WNOHANG | WNOWAIT) == 0)
    ::kill(child, SIGKILL);
}

// Another thread may have waited for it. One that a file system holds in the kernel ends later, by itself.
void end(pid_t child, const Descriptor& handle) {
  kill_child(child, handle);
  const auto until = Clock::now() + kUntilEnded;
  while (::waitpid(child, nullptr, WNOHANG) == 0 && Clock::now() < until) {
    pollfd ended{handle.number(), POLLIN, 0};
    ::poll(&ended, 1, kPauseMs);
  }
}

std::string read_all(int descriptor, std::size_t most, Clock::time_point until) {
  std::string text;
  while (text.size() < most) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd wait{descriptor, POLLIN, 0};
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) <= 0) break;
    const std::string_view piece = read_some(descriptor);
    if (piece.empty()) break;
    text += piece.substr(0, most - text.size());
  }
  return text;
}

}  // namespace

std::string output_of_child(const std::function<void(int descriptor)>& body, std::size_t most,
                            std::chrono::milliseconds limit) {
  Pipe pipe;
  try {
    pipe = make_pipe();
  } catch (const std::system_error&) {
    return "";
  }
  const auto until = Clock::now() + limit;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) work(parent, body, pipe.write_end.number());
  if (child < 0) return "";
  const Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pipe.write_end.close();
  std::string text = read_all(pipe.read_end.number(), most, until);
  end(child, handle);
  return text;
}

}  // namespace rueda
