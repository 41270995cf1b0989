// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>

#include "launcher/environment.h"
#include "launcher/hydra.h"
#include "launcher/note_box.h"
#include "launcher/processes.h"
#include "launcher/stdin_handover.h"

namespace rueda {
namespace {

constexpr int kCannotStart = 127;
constexpr int kTurnsAlone = 3;  // half seconds without a supervisor before the rank is killed

sigset_t waited_for() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGCHLD);
  ::sigaddset(&signals, SIGTERM);
  return signals;
}

// Hydra sends signals to the whole group: the rank gets its own, and the agent must outlive it.
void ignore_signals_meant_for_the_rank() {
  for (int signal : {SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  sigset_t blocked = waited_for();
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
}

void become_rank(pid_t agent, const std::vector<std::string>& command) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != agent) ::_exit(kCannotStart);  // the agent has ended before the line above
  for (int signal : {SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_DFL);
  restore_signals();
  execute(command);
  fmt::print(stderr, "ruedarun: cannot start '{}': {}\n", command.front(), std::strerror(errno));
  ::_exit(kCannotStart);
}

int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? -1 : std::atoi(text);
}

// Hydra leaves its own pipes open in the processes it starts. A program that a rank leaves running would hold
// them and so the job: ranks start with the standard streams and the two descriptors that MPI needs.
void close_leaked_descriptors() {
  std::set<int> keep{number_in("PMI_FD"), number_in("HYDI_CONTROL_FD")};
  unsigned next = STDERR_FILENO + 1;
  for (int descriptor : keep) {
    if (descriptor <= STDERR_FILENO) continue;
    if (static_cast<unsigned>(descriptor) > next)
      ::close_range(next, static_cast<unsigned>(descriptor) - 1, 0);
    next = static_cast<unsigned>(descriptor) + 1;
  }
  ::close_range(next, ~0U, 0);
}

// What the rank closes must be closed for Hydra too. PMI_FD stays: Hydra takes its end for the end of the
// rank and kills all others, which must not be before the note is left.
void close_inherited_descriptors() {
  for (int descriptor = 0; descriptor < 3; ++descriptor) ::close(descriptor);
  ::close(number_in("HYDI_CONTROL_FD"));
}

// A supervisor that was killed can end nothing: its agents do, once mpiexec has had time to end the job by
// SIGTERM.
int wait_for_rank(pid_t rank, const std::string& notes) {
  const bool supervised = is_box(notes);
  const sigset_t child_ended = waited_for();
  const timespec half_a_second{0, 500'000'000};
  int turns_alone = 0;
  for (int status = 0; turns_alone < kTurnsAlone;) {
    if (::waitpid(rank, &status, WNOHANG) == rank) return status;
    ::sigtimedwait(&child_ended, nullptr, &half_a_second);
    turns_alone = supervised && !is_box(notes) ? turns_alone + 1 : 0;
  }
  ::kill(0, SIGKILL);
  return SIGKILL;
}

// As soon as an agent ends with a failure Hydra kills all others. Often they fail for the same reason a
// moment later: this leaves them time to say so. The supervisor ends the wait.
void let_others_speak() {
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGTERM);
  const timespec at_most{3, 0};
  ::sigtimedwait(&end, nullptr, &at_most);
}

void end_like(int status) {
  if (!WIFSIGNALED(status)) ::_exit(WEXITSTATUS(status));
  rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(WTERMSIG(status), SIG_DFL);
  ::raise(WTERMSIG(status));
  ::_exit(128 + WTERMSIG(status));
}

}  // namespace

int run_agent(const std::vector<std::string>& command) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<std::string> words;
  std::ranges::transform(command, std::back_inserter(words), undisguised);
  Place place = export_rank_environment();
  std::string notes = take_note_address();
  take_standard_input(place.rank == 0);
  close_leaked_descriptors();
  ignore_signals_meant_for_the_rank();
  pid_t agent = ::getpid();
  pid_t rank = ::fork();
  if (rank == 0) become_rank(agent, words);
  if (rank < 0) {
    fmt::print(stderr, "ruedarun: cannot fork rank {}: {}\n", place.rank, std::strerror(errno));
    return kCannotStart;
  }
  close_inherited_descriptors();
  int status = wait_for_rank(rank, notes);
  leave_note(notes, {place.rank, status});
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && is_box(notes)) let_others_speak();
  end_like(status);
  return kCannotStart;
}

}  // namespace rueda
