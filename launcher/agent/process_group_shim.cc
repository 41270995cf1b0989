// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/process_group_shim.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

namespace rueda {
namespace {

sigset_t carried() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    ::sigaddset(&signals, signal);
  return signals;
}

// Empty when that process is no proxy: ours has ended, and somebody else has adopted us.
Descriptor handle_of(pid_t proxy) {
  Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, proxy, 0)));
  std::ifstream file("/proc/" + std::to_string(proxy) + "/comm");
  std::string name;
  std::getline(file, name);
  return name.starts_with("hydra_") ? std::move(handle) : Descriptor();
}

[[noreturn]] void be_the_front(pid_t agent, pid_t proxy) {
  ::close_range(0, ~0U, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != proxy) ::_exit(1);
  const sigset_t signals = carried();
  for (int status = 0;;) {
    siginfo_t about{};
    const int signal = ::sigwaitinfo(&signals, &about);
    if (signal == SIGCHLD && ::waitpid(agent, &status, WNOHANG) == agent) ::_exit(WIFEXITED(status) ? 0 : 1);
    if (signal > 0 && signal != SIGCHLD) ::kill(agent, signal);
  }
}

}  // namespace

Behind go_behind_a_front() {
  Behind behind{::getpid(), ::getppid(), {}};
  behind.proxy_handle = handle_of(behind.proxy);
  const sigset_t signals = carried();
  ::signal(SIGCHLD, SIG_DFL);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);  // none gets lost before the agent reads its own
  const pid_t agent = ::fork();
  if (agent < 0) throw std::system_error(errno, std::generic_category(), "cannot fork");
  if (agent > 0) be_the_front(agent, behind.proxy);
  ::setsid();
  return behind;
}

}  // namespace rueda
