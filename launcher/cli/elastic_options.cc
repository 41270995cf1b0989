// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/elastic_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <vector>

#include "launcher/cli/flag_values.h"
#include "launcher/cli/options.h"

namespace rueda {
namespace {

constexpr int kLongestTimeout = 31'536'000;  // seconds: a year
constexpr int kMostResets = 1'000'000'000;

void set_least(LaunchOptions& options, const std::string& text) {
  options.elastic.least = whole_number("--min-np", text, kMostRanks);
}

void set_most(LaunchOptions& options, const std::string& text) {
  options.elastic.given.insert("--max-np");
  options.elastic.most = whole_number("--max-np", text, kMostRanks);
}

void set_spares(LaunchOptions& options, const std::string& text) {
  options.elastic.given.insert("--spares");
  options.elastic.spares = whole_number("--spares", text, kMostRanks, 0);
}

void set_timeout(LaunchOptions& options, const std::string& text) {
  options.elastic.given.insert("--elastic-timeout");
  options.elastic.timeout = std::chrono::seconds(whole_number("--elastic-timeout", text, kLongestTimeout));
}

void set_reset_limit(LaunchOptions& options, const std::string& text) {
  options.elastic.given.insert("--reset-limit");
  options.elastic.reset_limit = whole_number("--reset-limit", text, kMostResets, 0);
}

void set_script(LaunchOptions& options, const std::string& text) {
  if (text.empty())
    throw UsageError("--host-discovery-script is empty; name a program that prints the hosts");
  options.elastic.discovery_script = text;
}

void set_interval(LaunchOptions& options, const std::string& text) {
  options.elastic.given.insert("--discovery-interval");
  options.elastic.discovery_interval =
      std::chrono::seconds(whole_number("--discovery-interval", text, kLongestTimeout));
}

void set_slots(LaunchOptions& options, const std::string& text) {
  options.elastic.given.insert("--slots-per-host");
  options.elastic.slots_per_host = whole_number("--slots-per-host", text, kMostRanks);
}

void set_blacklist(LaunchOptions& options, const std::string& text) {
  options.elastic.given.insert("--blacklist");
  options.elastic.blacklist = choice_of<Blacklist>("blacklist", text, std::array{"host", "slot", "never"});
}

// "MIN MAX".
void set_cooldown(LaunchOptions& options, const std::string& text) {
  options.elastic.given.insert("--blacklist-cooldown-range");
  constexpr std::string_view kFlag = "--blacklist-cooldown-range";
  const std::size_t space = std::min(text.find(' '), text.size());
  const auto seconds = [&](std::string_view number) {
    return std::chrono::seconds(whole_number(kFlag, number, kLongestTimeout));
  };
  const std::string_view words(text);
  const Cooldown range{seconds(words.substr(0, space)),
                       seconds(words.substr(std::min(space + 1, words.size())))};
  if (range.least > range.most)
    throw UsageError(fmt::format("{} is '{}'; the first number must not be above the second", kFlag, text));
  options.elastic.cooldown = range;
}

// Flags that would do nothing.
void refuse_given(const ElasticOptions& elastic, const std::set<std::string_view>& useless,
                  std::string_view remedy) {
  std::vector<std::string_view> both;
  std::ranges::set_intersection(elastic.given, useless, std::back_inserter(both));
  if (both.empty()) return;
  throw UsageError(
      fmt::format("{} {} nothing here: {}", fmt::join(both, ", "), both.size() == 1 ? "does" : "do", remedy));
}

void settle_hosts(LaunchOptions& options) {
  if (options.elastic.discovery_script.empty())
    return refuse_given(options.elastic, {"--discovery-interval", "--slots-per-host"},
                        "no script names the hosts; give --host-discovery-script COMMAND");
  if (!options.hosts.empty() || options.virtual_hosts.count > 0)
    throw UsageError("--host-discovery-script names the hosts; leave -H, --hostfile and --virtual-hosts out");
}

}  // namespace

const std::map<std::string_view, SetFlag>& elastic_flags() {
  static const std::map<std::string_view, SetFlag> table{{"min-np", set_least},
                                                         {"min-num-proc", set_least},
                                                         {"max-np", set_most},
                                                         {"max-num-proc", set_most},
                                                         {"spares", set_spares},
                                                         {"elastic-timeout", set_timeout},
                                                         {"reset-limit", set_reset_limit},
                                                         {"host-discovery-script", set_script},
                                                         {"discovery-interval", set_interval},
                                                         {"slots-per-host", set_slots},
                                                         {"slots", set_slots},
                                                         {"blacklist", set_blacklist},
                                                         {"blacklist-cooldown-range", set_cooldown}};
  return table;
}

// The least number of ranks makes a job elastic, or hosts that a script names.
void settle_elastic(LaunchOptions& options) {
  ElasticOptions& elastic = options.elastic;
  if (elastic.least == 0 && !elastic.discovery_script.empty()) elastic.least = options.ranks;
  if (elastic.least == 0) {
    refuse_given(elastic, elastic.given,
                 "the job may not lose ranks; say how many it needs at least: --min-np N");
    return;
  }
  if (options.ranks == 0) options.ranks = elastic.least;
  if (elastic.most == 0) elastic.most = std::max(options.ranks, elastic.least);
  if (elastic.least > options.ranks || options.ranks > elastic.most)
    throw UsageError(fmt::format("--min-np {}, -np {} and --max-np {}: they must ascend", elastic.least,
                                 options.ranks, elastic.most));
  if (!elastic.given.contains("--spares"))
    elastic.spares = elastic.least < options.ranks && elastic.most < kMostRanks ? 1 : 0;
  if (elastic.most + elastic.spares > kMostRanks)
    throw UsageError(fmt::format("--max-np {} and --spares {}: together at most {}", elastic.most,
                                 elastic.spares, kMostRanks));
  if (options.launcher == LaunchOptions::Launcher::hydra)
    throw UsageError("--min-np: Hydra ends a job that loses a rank; leave --launcher hydra out");
  settle_hosts(options);
}

}  // namespace rueda
