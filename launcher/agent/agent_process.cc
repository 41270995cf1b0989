// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/agent_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/agent/agent_client.h"
#include "launcher/agent/janitor.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

constexpr int kCannotReach = 1;
constexpr int kAttempts = 5;  // a crowd of strangers may push an agent out before ruedarun knows it

// The first line of standard input, byte by byte: all behind it is not for this process.
std::string first_line() {
  constexpr std::size_t kLongest = 8192;
  std::string line;
  for (char c = 0; line.size() < kLongest && ::read(STDIN_FILENO, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

int number_in(const std::string& words) {
  const char* value = std::getenv(words.c_str());
  return std::atoi(value == nullptr ? words.c_str() : value);
}

// The terminal is for others now: a rank, which is in no session of it, would take their input.
void take_no_input() {
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(nothing.number(), STDIN_FILENO);
}

}  // namespace

pid_t fork_agent(Descriptor socket, const AuthenticationKey& key, int host) {
  const pid_t supervisor = ::getpid();
  const bool in_background = ::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp();
  const pid_t janitor = ::fork();
  if (janitor < 0) throw std::system_error(errno, std::generic_category(), "cannot fork");
  if (janitor > 0) return janitor;
  // The agent keeps this one's end of the socket, and no other descriptor of ruedarun.
  constexpr int kKept = STDERR_FILENO + 1;
  if (socket.number() != kKept) ::dup3(socket.number(), kKept, O_CLOEXEC);
  ::close_range(kKept + 1, ~0U, 0);
  if (in_background) take_no_input();
  if (::getppid() != supervisor) ::_exit(kCannotReach);
  leave_janitor_behind();
  const std::string words = to_text(AgentIntroduction{host, ""});
  Agent(SecureChannel::connect(Descriptor(kKept), key, std::as_bytes(std::span(words)),
                               agents::kLongestMessage))
      .run();
  ::_exit(0);
}

AgentCall read_call(const std::vector<std::string>& words) {
  const char* given = std::getenv("RUEDA_LAUNCH_AGENT");
  const std::string line = given == nullptr ? first_line() : given;
  ::unsetenv("RUEDA_LAUNCH_AGENT");
  const char* name = words.size() > 1 ? std::getenv(words[1].c_str()) : nullptr;
  return {invitation_from(line), {words.empty() ? 0 : number_in(words.front()), name == nullptr ? "" : name}};
}

int say_unreachable(const AgentCall& call) {
  fmt::print(stderr,
             "ruedarun: the agent on {} finds no ruedarun of this job at {} (port, addresses); open the way, "
             "or name the network by --network-interface\n",
             host_name(), call.invitation ? call.invitation->addresses : "no address at all");
  return kCannotReach;
}

void run_agent(const std::vector<std::string>& words) {
  leave_janitor_behind();
  const AgentCall call = read_call(words);
  bool reached = false;
  for (int attempt = 0; call.invitation && attempt < kAttempts; ++attempt) {
    std::optional<SecureChannel> supervisor = connect_to_supervisor(*call.invitation, call.introduction);
    reached |= supervisor.has_value();
    if (!supervisor || Agent(std::move(*supervisor)).run()) break;
  }
  const int status = reached ? 0 : say_unreachable(call);
  std::fflush(nullptr);
  ::_exit(status);  // a thread may be inside of a driver's library, which exit() would take down
}

}  // namespace rueda
