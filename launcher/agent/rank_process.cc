// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/rank_process.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "launcher/system/processes.h"

namespace rueda {
namespace {

constexpr int kCannotStart = 127;

int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? -1 : std::atoi(text);
}

void become_rank(pid_t agent, const std::vector<std::string>& command, const SignalState& signals) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != agent) ::_exit(kCannotStart);  // the agent has ended before the line above
  set_signal_state(signals);
  execute(command);
  fmt::print(stderr, "ruedarun: cannot start '{}': {}\n", command.front(), std::strerror(errno));
  std::fflush(stderr);
  ::_exit(kCannotStart);
}

}  // namespace

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

pid_t start_rank(const std::vector<std::string>& command, const SignalState& signals) {
  const pid_t agent = ::getpid();
  const pid_t rank = ::fork();
  if (rank == 0) become_rank(agent, command, signals);
  if (rank < 0) return rank;
  ::setpgid(rank, rank);  // here too: whichever comes first
  for (int descriptor :
       {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, number_in("PMI_FD"), number_in("HYDI_CONTROL_FD")})
    if (descriptor >= 0) ::close(descriptor);
  return rank;
}

bool catches(pid_t process, int signal) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    if (word != "SigCgt:") continue;
    unsigned long long mask = 0;
    status >> std::hex >> mask;
    return (mask >> (signal - 1) & 1) != 0;
  }
  return false;
}

}  // namespace rueda
