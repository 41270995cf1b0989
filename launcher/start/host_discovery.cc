// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/host_discovery.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "launcher/cli/host_file.h"
#include "launcher/cli/usage_error.h"
#include "launcher/system/processes.h"
#include "launcher/system/signals.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestRun = 60s;
constexpr std::size_t kLongestText = 1 << 20;
constexpr std::size_t kLongestHost = 300;  // with its slots; a name of DNS has 253 characters at most

// A file of this folder is not looked for in PATH.
std::string command_of(const std::string& script) {
  std::error_code none;
  const bool is_here =
      script.find('/') == std::string::npos && std::filesystem::is_regular_file(script, none);
  return is_here ? "./" + script : script;
}

// Without a comment, and without blanks at both ends.
std::string host_of(const std::string& line) {
  constexpr std::string_view kBlank = " \t\r";
  const std::string text = line.substr(0, line.find('#'));
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

}  // namespace

std::vector<HostSlots> hosts_from_script(std::string_view text, int slots_per_host) {
  std::vector<HostSlots> hosts;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string host = host_of(line);
    if (host.empty()) continue;
    const std::string where = fmt::format("line {} of the host discovery script", number);
    if (host.find_first_of(", \t") != std::string::npos || host.size() > kLongestHost)
      throw UsageError(fmt::format("{}: {:?}; a line must be HOST or HOST:RANKS", where,
                                   std::string_view(host).substr(0, kLongestHost)));
    check_host(host, where);
    HostSlots fresh = host_slots_from(host).front();
    if (host.rfind(':') == std::string::npos) fresh.slots = slots_per_host;
    const auto known = std::ranges::find(hosts, fresh.name, &HostSlots::name);
    known == hosts.end() ? hosts.push_back(fresh) : static_cast<void>(*known = fresh);
  }
  return hosts;
}

HostDiscovery::HostDiscovery(const ElasticOptions& options)
    : command_(command_of(options.discovery_script)),
      slots_per_host_(options.slots_per_host),
      interval_(options.discovery_interval) {}

HostDiscovery::~HostDiscovery() {
  if (process_ != 0) ::kill(-process_, SIGKILL);
}

HostDiscovery::Clock::time_point HostDiscovery::next_time() const {
  return process_ == 0 ? next_start_ : give_up_at_;
}

void HostDiscovery::act(Clock::time_point now) {
  if (process_ == 0 && now >= next_start_) {
    try {
      return start();
    } catch (const std::system_error& error) {
      next_start_ = now + interval_;
      answer_ = Answer{.failure = fmt::format("the host discovery script '{}': {}", command_, error.what())};
      return;
    }
  }
  read();
  if (process_ != 0 && now >= give_up_at_) {
    ::kill(-process_, SIGKILL);
    give_up_at_ = Clock::time_point::max();
  }
}

void HostDiscovery::start() {
  Pipe pipe = make_pipe();
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const pid_t process = fork_program(nothing.number(), pipe.write_end.number(), STDERR_FILENO);
  if (process == 0) {
    execute({"/bin/sh", "-c", command_});
    ::_exit(127);
  }
  ::setpgid(process, process);
  set_non_blocking(pipe.read_end.number());
  process_ = process;
  output_ = std::move(pipe.read_end);
  text_.clear();
  give_up_at_ = Clock::now() + kLongestRun;
}

void HostDiscovery::read() {
  std::array<char, 4096> piece{};
  while (output_) {
    const ssize_t count = ::read(output_.number(), piece.data(), piece.size());
    if (count == 0) output_.close();
    if (count <= 0) return;
    if (text_.size() <= kLongestText) text_.append(piece.data(), static_cast<std::size_t>(count));
  }
}

// Also kills the processes that the program has left in its group.
bool HostDiscovery::note_end(pid_t process, int status) {
  if (process != process_) return false;
  read();
  output_.close();
  ::kill(-std::exchange(process_, 0), SIGKILL);
  next_start_ = Clock::now() + interval_;
  Answer answer;
  if (status != 0) {
    answer.failure = fmt::format("the host discovery script '{}' {}", command_, how_it_ended(status));
  } else if (text_.size() > kLongestText) {
    answer.failure =
        fmt::format("the host discovery script '{}' prints more than {} bytes", command_, kLongestText);
  } else {
    try {
      answer.hosts = hosts_from_script(text_, slots_per_host_);
    } catch (const UsageError& error) {
      answer.failure = error.what();
    }
  }
  answer_ = std::move(answer);
  return true;
}

std::optional<HostDiscovery::Answer> HostDiscovery::take_answer() { return std::exchange(answer_, {}); }

namespace {

// The first signal that asks for the end, or 0. Ends of children go to the discovery.
int take_signals(HostDiscovery& discovery, const Descriptor& signals) {
  while (const int signal = next_signal(signals)) {
    int status = 0;
    for (pid_t process; signal == SIGCHLD && (process = ::waitpid(-1, &status, WNOHANG)) > 0;)
      discovery.note_end(process, status);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) return signal;
  }
  return 0;
}

}  // namespace

std::optional<std::vector<HostSlots>> wait_for_slots(HostDiscovery& discovery, int slots,
                                                     std::chrono::seconds longest, const Descriptor& signals,
                                                     int& signal) {
  const auto until = HostDiscovery::Clock::now() + longest;
  int there = -1;
  while (true) {
    const auto now = HostDiscovery::Clock::now();
    discovery.act(now);
    if (const auto answer = discovery.take_answer()) {
      if (!answer->failure.empty() && there < 0) throw std::runtime_error(answer->failure);
      if (answer->failure.empty() && slots_of(answer->hosts) >= slots) return answer->hosts;
      const int found = answer->failure.empty() ? slots_of(answer->hosts) : there;
      if (std::exchange(there, found) != found)
        fmt::print(stderr, "ruedarun: waiting for hosts: {} of {} ranks have a slot\n", there, slots);
    }
    if (now >= until)
      throw std::runtime_error(fmt::format(
          "{} of {} ranks have a slot on hosts, and no more hosts have come within {} s; see what the host "
          "discovery script prints, or allow more time by --elastic-timeout",
          std::max(0, there), slots, longest.count()));
    const auto next = std::min(discovery.next_time(), until);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    std::array<pollfd, 2> waits{{{signals.number(), POLLIN, 0}, {discovery.descriptor(), POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000)));
    if ((signal = take_signals(discovery, signals)) != 0) return std::nullopt;
  }
}

}  // namespace rueda
