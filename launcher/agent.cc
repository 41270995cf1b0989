// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent.h"

#include <fcntl.h>
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

#include "launcher/environment.h"
#include "launcher/hydra.h"
#include "launcher/note_box.h"
#include "launcher/processes.h"

namespace rueda {
namespace {

constexpr int kCannotStart = 127;

// Hydra sends signals to the whole group: the rank gets its own, and the agent must outlive it.
void ignore_signals_meant_for_the_rank() {
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
}

void become_rank(pid_t agent, bool first, const std::vector<std::string>& command) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != agent) ::_exit(kCannotStart);  // the agent has ended before the line above
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_DFL);
  restore_signals();
  if (!first) {  // Hydra feeds rank 0 only and never closes the input of the others: reading it would hang
    int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    ::close(nothing);
  }
  execute(command);
  fmt::print(stderr, "ruedarun: cannot start '{}': {}\n", command.front(), std::strerror(errno));
  ::_exit(kCannotStart);
}

// Hydra's descriptors now belong to the rank: what it closes must be closed for Hydra too.
void close_inherited_descriptors() {
  for (int descriptor = 0; descriptor < 3; ++descriptor) ::close(descriptor);
  for (const char* variable : {"PMI_FD", "HYDI_CONTROL_FD"})
    if (const char* number = std::getenv(variable)) ::close(std::atoi(number));
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
  ignore_signals_meant_for_the_rank();
  pid_t agent = ::getpid();
  pid_t rank = ::fork();
  if (rank == 0) become_rank(agent, place.rank == 0, words);
  if (rank < 0) {
    fmt::print(stderr, "ruedarun: cannot fork rank {}: {}\n", place.rank, std::strerror(errno));
    return kCannotStart;
  }
  close_inherited_descriptors();
  int status = 0;
  while (::waitpid(rank, &status, 0) < 0 && errno == EINTR) {}
  leave_note(notes, {place.rank, status});
  end_like(status);
  return kCannotStart;
}

}  // namespace rueda
