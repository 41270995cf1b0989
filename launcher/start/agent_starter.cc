// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/agent_starter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <utility>

#include "launcher/agent/agent_process.h"
#include "launcher/hydra/hydra.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

using By = LaunchMethod::By;
using Words = std::vector<std::string>;

std::string in_quotes(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

// One word for the shell on the other host.
std::string for_a_shell(const Words& words) {
  Words quoted;
  std::ranges::transform(words, std::back_inserter(quoted), in_quotes);
  return fmt::format("exec {}", fmt::join(quoted, " "));
}

// `goes_on`: without a node that fails, if the allocation does, too (salloc --no-kill).
Words srun_command(const Words& program, const Words& hosts, bool goes_on) {
  Words command = program;
  command.insert(command.end(),
                 {fmt::format("--nodes={}", hosts.size()), fmt::format("--ntasks={}", hosts.size()),
                  "--ntasks-per-node=1", fmt::format("--nodelist={}", fmt::join(hosts, ",")), "--mpi=none",
                  "--kill-on-bad-exit=0", "--cpu-bind=none", "--overlap", "--unbuffered"});
  if (goes_on) command.emplace_back("--no-kill");
  return command;
}

}  // namespace

AgentStarter::AgentStarter(const LaunchOptions& options, LaunchMethod method, Words hosts, std::string role)
    : options_(options),
      method_(std::move(method)),
      hosts_(std::move(hosts)),
      role_(std::move(role)),
      around_(surroundings()) {
  Pipe pipe = make_pipe();
  said_ = std::move(pipe.read_end);
  says_ = std::move(pipe.write_end);
  set_non_blocking(said_.number());
}

bool AgentStarter::is_here(int host) const {
  if (method_.by == By::fork) return true;
  return method_.by == By::remote_shell && is_this_machine(name_of(host), around_);
}

std::vector<std::string> AgentStarter::commands() const {
  Words all;
  for (const Starter& starter : starters_)
    if (!starter.command.empty()) all.push_back(fmt::format("{}", fmt::join(starter.command, " ")));
  return all;
}

Words AgentStarter::agent_command(Words words) const {
  Words command{std::filesystem::read_symlink("/proc/self/exe").string(), role_, "--"};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

Descriptor AgentStarter::start_here(const AuthenticationKey& key, int host) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a pair of sockets");
  Descriptor ours(ends[0]);
  starters_.push_back({fork_agent(Descriptor(ends[1]), key, host), {}, {host}, {}});
  return ours;
}

void AgentStarter::start_elsewhere(const Invitation& invitation, const std::vector<int>& hosts) {
  const std::string line = to_text(invitation) + "\n";
  Words names;
  for (const int host : hosts) names.push_back(name_of(host));
  if (method_.by == By::srun) {
    Words command = srun_command(method_.words, names, options_.elastic.least > 0);
    std::ranges::copy(agent_command({"SLURM_PROCID", "SLURMD_NODENAME"}), std::back_inserter(command));
    return spawn(std::move(command), hosts, line);
  }
  if (method_.by == By::hydra) {
    ::setenv("RUEDA_LAUNCH_AGENT", to_text(invitation).c_str(), 1);  // Hydra gives agents no input
    spawn(mpiexec_command(method_.words.front(), names, options_.network_interface, options_.mpiexec_words,
                          agent_command({"PMI_RANK"})),
          hosts, "");
    ::unsetenv("RUEDA_LAUNCH_AGENT");
    return;
  }
  for (const int host : hosts) {
    Words command = method_.words;
    command.insert(command.end(), {name_of(host), for_a_shell(agent_command({std::to_string(host)}))});
    spawn(std::move(command), {host}, line);
  }
}

void AgentStarter::spawn(Words command, std::vector<int> hosts, const std::string& line) {
  Pipe input = make_pipe();
  const pid_t process = fork_program(input.read_end.number(), says_.number(), says_.number());
  if (process == 0) {
    execute(command);
    fmt::print(stderr, "ruedarun: cannot start '{}': {}\n", command.front(), std::strerror(errno));
    std::fflush(stderr);
    ::_exit(127);
  }
  write_all(input.write_end.number(), line);  // an empty pipe takes it at once
  starters_.push_back({process, std::move(command), std::move(hosts), std::move(input.write_end)});
}

std::vector<std::string> AgentStarter::lines() {
  for (std::string_view piece; !(piece = read_some(said_.number())).empty();) begun_ += piece;
  Words whole;
  for (std::size_t end; (end = begun_.find('\n')) != std::string::npos; begun_.erase(0, end + 1))
    whole.push_back(begun_.substr(0, end));
  constexpr std::size_t kLongest = 64 << 10;
  if (begun_.size() > kLongest || (none_runs() && !begun_.empty()))
    whole.push_back(std::exchange(begun_, {}));
  return whole;
}

std::optional<AgentStarter::EndedStarter> AgentStarter::note_end(pid_t process, int status) {
  const auto found = std::ranges::find(starters_, process, &Starter::process);
  if (found == starters_.end()) return std::nullopt;
  EndedStarter ended{.status = status, .hosts = found->hosts, .on_this_machine = found->command.empty()};
  const bool remote = method_.by == By::remote_shell && !ended.on_this_machine;
  if (!found->command.empty())
    ended.command = std::filesystem::path(found->command.front()).filename().string();
  if (remote) ended.command += " " + name_of(found->hosts.front());
  starters_.erase(found);
  return ended;
}

void AgentStarter::end_those(const std::function<bool(int host)>& unwanted) {
  for (const Starter& starter : starters_)
    if (!starter.command.empty() && std::ranges::any_of(starter.hosts, unwanted))
      ::kill(starter.process, SIGTERM);
}

}  // namespace rueda
