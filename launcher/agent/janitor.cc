// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/janitor.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "launcher/job/mpich_cleanup.h"
#include "launcher/system/processes.h"
#include "launcher/system/signals.h"

namespace rueda {
namespace {

constexpr const char* kName = "rueda-janitor";  // 15 letters at most

// Waits for the end of the agent; children that it has taken in end, too.
int status_of(pid_t agent) {
  for (int status = 0;;) {
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended == agent) return status;
    if (ended < 0 && errno != EINTR) return 1;
  }
}

[[noreturn]] void be_the_janitor(pid_t agent, const MpichCleanup& files) {
  ::prctl(PR_SET_NAME, kName);
  ::close_range(0, ~0U, 0);
  const int status = status_of(agent);
  kill_descendants();
  files.sweep();
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace

pid_t leave_janitor_behind() {
  const MpichCleanup files;
  adopt_orphans();
  ::setsid();  // it fails where this process leads a session already
  const SignalState inherited = signal_state();
  block_all_signals();
  const pid_t janitor = ::getpid();
  const pid_t agent = ::fork();
  if (agent < 0) throw std::system_error(errno, std::generic_category(), "cannot fork");
  if (agent > 0) be_the_janitor(agent, files);
  ::setsid();
  set_signal_state(inherited);
  return janitor;
}

}  // namespace rueda
