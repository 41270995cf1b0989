// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/virtual_hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <regex>
#include <sstream>
#include <system_error>
#include <vector>

#include "launcher/system/processes.h"

namespace rueda {
namespace {

namespace fs = std::filesystem;

fs::path this_program() { return fs::read_symlink("/proc/self/exe"); }

void check_rate(const std::string& rate) {
  static const std::regex legal("max|[0-9]+([.][0-9]+)?[kmg]bit");
  if (!std::regex_match(rate, legal) ||
      (rate != "max" && rate.find_first_of("123456789") == std::string::npos))
    throw UsageError(
        fmt::format("--rate is '{}'; it must be like 200mbit or 1gbit, or max for no limit", rate));
}

// Every card of a host has the same name on all.
void check_card(const std::string& card, int rails) {
  for (int rail = 0; rail < rails; ++rail)
    if (card == fmt::format("eth{}", rail)) return;
  throw UsageError(fmt::format(
      "--network-interface is '{}'; virtual hosts have the cards eth0 to eth{} (--rails)", card, rails - 1));
}

// "h0:3,h1:2": the first hosts take the ranks that are left over.
std::string hosts_in_blocks(int ranks, int hosts) {
  std::string list;
  for (int host = 0; host < hosts; ++host)
    list +=
        fmt::format("{}h{}:{}", host == 0 ? "" : ",", host, ranks / hosts + (host < ranks % hosts ? 1 : 0));
  return list;
}

}  // namespace

void settle_virtual_hosts(LaunchOptions& options) {
  VirtualHosts& wanted = options.virtual_hosts;
  if (wanted.count == 0) {
    if (wanted.rails != 0 || !wanted.rate.empty())
      throw UsageError("--rails and --rate are about virtual hosts; say how many with --virtual-hosts N");
    return;
  }
  if (!options.hosts.empty() || !options.ssh_words.empty())
    throw UsageError(
        "--virtual-hosts makes hosts of its own; leave it out, or --hosts, --hostfile and the flags of ssh");
  const bool one_each = options.action == LaunchOptions::Action::doctor && options.ranks == 0;
  if (!one_each && options.ranks < wanted.count)
    throw UsageError(fmt::format("--virtual-hosts {} is more than -np {}; give every host a rank",
                                 wanted.count, options.ranks));
  if (wanted.rails == 0) wanted.rails = 1;
  if (wanted.rate.empty()) wanted.rate = "max";
  if (options.network_interface.empty()) options.network_interface = "eth0";
  check_rate(wanted.rate);
  check_card(options.network_interface, wanted.rails);
  options.hosts = hosts_in_blocks(one_each ? wanted.count : options.ranks, wanted.count);
}

std::string hosts_program() {
  std::string path = this_program().replace_filename("rueda-hosts").string();
  if (::access(path.c_str(), X_OK) != 0)
    throw UsageError(
        fmt::format("--virtual-hosts: no program '{}'; it comes with ruedarun: install or build both", path));
  return path;
}

void move_to_virtual_hosts(const VirtualHosts& wanted, std::span<const std::string> arguments) {
  std::vector<std::string> command{hosts_program(), "with", std::to_string(wanted.count)};
  command.insert(command.end(), {"--rails", std::to_string(wanted.rails), "--rate", wanted.rate});
  command.insert(command.end(), {"--", this_program().string(), kOnVirtualHost, "--"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  execute(command);
  throw std::system_error(errno, std::generic_category(), fmt::format("cannot start '{}'", command.front()));
}

std::string what_was_made(const VirtualHosts& hosts) {
  const std::string names = hosts.count == 1
                                ? "1 virtual host, h0,"
                                : fmt::format("{} virtual hosts, h0 to h{},", hosts.count, hosts.count - 1);
  const std::string rails = hosts.rails == 1 ? "1 rail" : fmt::format("{} rails", hosts.rails);
  const std::string speed =
      hosts.rate == "max" ? "without a limit of speed" : fmt::format("of {} each", hosts.rate);
  return fmt::format("ruedarun: {} {} {}; to look at them: {} of {} stats\n", names, rails, speed,
                     hosts_program(), ::getpid());
}

std::string bytes_of_cards() {
  std::istringstream lines(output_of({hosts_program(), "stats"}));
  std::string text;
  for (std::string line; std::getline(lines, line);) text += fmt::format("ruedarun: {}\n", line);
  return text;
}

}  // namespace rueda
