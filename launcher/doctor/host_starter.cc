// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/host_starter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <utility>

#include "launcher/doctor/examined_host.h"
#include "launcher/doctor/findings.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

constexpr int kUsage = 2;  // of a ruedarun that does not know the words of this one
constexpr int kNotExecutable = 126, kNotFound = 127;
constexpr int kNoConnection = 255;  // as ssh has it

}  // namespace

std::string capitalized(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string remedy_of(const FailedStart& start) {
  if (start.said.find("finds no ruedarun") != std::string::npos)
    return "Open all TCP ports from there to this host, or name the network by --network-interface.";
  switch (start.status) {
    case kNoConnection:
      return fmt::format(
          "See that `{0} {1} true` works without a question: `ssh-copy-id {1}` for a password, "
          "`ssh {1}` once for an unknown host key.",
          start.method, start.host);
    case kUsage: return fmt::format("Install the same Rueda there, at {}.", start.program);
    case kNotFound:
    case kNotExecutable: return fmt::format("Install Rueda there, so that {} is a program.", start.program);
    default:
      return fmt::format("Look at what `{} {} {} --version` says.", start.method, start.host, start.program);
  }
}

HostStarter::HostStarter(const LaunchOptions& options, const LaunchMethod& method,
                         std::vector<std::string> hosts)
    : options_(options), method_(method), hosts_(std::move(hosts)), chooser_(options, method, hosts_) {}

std::vector<HostStarter::Lost> HostStarter::start(const Invitation& invitation,
                                                  const std::vector<int>& hosts) {
  std::vector<Lost> lost;
  if (method_.by == LaunchMethod::By::remote_shell)
    for (const int host : hosts) start_some(invitation, {host}, lost);
  else
    start_some(invitation, hosts, lost);
  return lost;
}

void HostStarter::start_some(const Invitation& invitation, const std::vector<int>& hosts,
                             std::vector<Lost>& lost) {
  try {
    Starter& starter =
        starters_.emplace_back(Starter{AgentStarter(options_, method_, hosts_, kExaminedHost)});
    starter.agents.start_elsewhere(invitation, hosts);
    if (options_.verbose)
      for (const std::string& command : starter.agents.commands())
        fmt::print(stderr, "ruedarun: starting {}\n", command);
  } catch (const std::exception& error) {
    for (const int host : hosts)
      lost.push_back(
          {host, fmt::format("ruedarun cannot be started there: {}.", error.what()),
           "Look at `ulimit -u`, `ulimit -n` and free memory of this host, which starts the others."});
  }
}

void HostStarter::add_to(std::vector<pollfd>& waits) const {
  for (const Starter& starter : starters_) waits.push_back({starter.agents.descriptor(), POLLIN, 0});
}

void HostStarter::pass_lines_on() {
  for (Starter& starter : starters_) pass_lines_on(starter);
}

// Another host may say anything.
void HostStarter::pass_lines_on(Starter& starter) {
  for (const std::string& line : starter.agents.lines()) {
    const std::string text = printable_line(line);
    fmt::print(stderr, "{}\n", text);
    if (!text.empty()) starter.last_line = text;
  }
}

std::vector<HostStarter::Lost> HostStarter::note_end(pid_t process, int status) {
  for (Starter& starter : starters_)
    if (const auto ended = starter.agents.note_end(process, status)) return lost_by(starter, *ended);
  return {};
}

std::vector<HostStarter::Lost> HostStarter::lost_by(Starter& starter,
                                                    const AgentStarter::EndedStarter& ended) const {
  pass_lines_on(starter);
  const bool is_for_all = method_.by != LaunchMethod::By::remote_shell;
  const std::string said = starter.last_line.empty() ? "" : fmt::format(" ({})", starter.last_line);
  std::vector<Lost> lost;
  for (const int host : ended.hosts) {
    const FailedStart failed{
        hosts_[static_cast<std::size_t>(host)], fmt::format("{}", fmt::join(method_.words, " ")),
        std::filesystem::read_symlink("/proc/self/exe").string(), exit_code(ended.status), starter.last_line};
    lost.push_back({host,
                    fmt::format("ruedarun cannot be started there: {} {}{}.", ended.command,
                                how_it_ended(ended.status), said),
                    is_for_all ? capitalized(method_.remedy) + "." : remedy_of(failed)});
  }
  return lost;
}

bool HostStarter::none_runs() const {
  return std::ranges::all_of(starters_, [](const Starter& starter) { return starter.agents.none_runs(); });
}

}  // namespace rueda
