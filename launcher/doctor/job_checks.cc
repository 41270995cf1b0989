// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/job_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

namespace rueda {
namespace {

using State = Finding::State;

constexpr std::int64_t kMuch = 100'000'000;        // nanoseconds between clocks
constexpr std::int64_t kTooMuch = 60'000'000'000;  // credentials of munge and certificates expire
constexpr double kNanosecondsInMillisecond = 1e6;

std::vector<std::string> names_of_all(const Examination& job) {
  std::vector<std::string> names;
  for (const ExaminedHost& host : job.hosts)
    if (host.facts) names.push_back(host.name);
  return names;
}

using Value = std::function<std::string(const agents::HostFacts&)>;

// Hosts by their value.
std::map<std::string, std::vector<std::string>> by_value(const Examination& job, const Value& value) {
  std::map<std::string, std::vector<std::string>> found;
  for (const ExaminedHost& host : job.hosts)
    if (host.facts) found[value(*host.facts)].push_back(host.name);
  return found;
}

// "2.9.1 on a, b; 2.8.0 on c".
std::string in_words(const std::map<std::string, std::vector<std::string>>& values) {
  std::vector<std::string> parts;
  for (const auto& [value, hosts] : values)
    parts.push_back(fmt::format("{} on {}", value.empty() ? "none" : value, fmt::join(hosts, ", ")));
  return fmt::format("{}", fmt::join(parts, "; "));
}

struct Compared {
  std::string name;
  Value value;
  State otherwise;
};

std::vector<Compared> compared_values() {
  using Facts = agents::HostFacts;
  const auto python_module = [](const Facts& facts) {
    const agents::SoftwareFacts& software = facts.software;
    return software.python_rueda == agents::kNotInstalled ? software.rueda : software.python_rueda;
  };
  return {
      {"Rueda", [](const Facts& facts) { return facts.software.rueda; }, State::error},
      {"the torch that Rueda was built with", [](const Facts& facts) { return facts.software.torch; },
       State::error},
      {"torch", [](const Facts& facts) { return facts.software.python_torch; }, State::error},
      {"Rueda's Python module", python_module, State::error},
      {"the torch of Rueda's Python module", [](const Facts& facts) { return facts.software.python_built; },
       State::error},
      {"Python", [](const Facts& facts) { return facts.software.python; }, State::warning},
      {"MPI", [](const Facts& facts) { return facts.software.mpi; }, State::warning},
      {"devices",
       [](const Facts& facts) { return fmt::format("{}", fmt::join(facts.software.devices, ", ")); },
       State::warning},
  };
}

}  // namespace

std::vector<Finding> check_answers(const Examination& job) {
  std::vector<Finding> findings;
  for (const ExaminedHost& host : job.hosts)
    if (!host.facts) findings.push_back({State::error, "hosts", {host.name}, host.silence, host.remedy});
  return findings;
}

std::vector<Finding> check_versions(const Examination& job) {
  std::vector<Finding> findings;
  std::vector<std::string> equal;
  for (const Compared& each : compared_values()) {
    const auto values = by_value(job, each.value);
    if (values.size() > 1)
      findings.push_back({each.otherwise, "versions", names_of_all(job),
                          fmt::format("Versions differ: {} is {}.", each.name, in_words(values)),
                          "Install the same on all hosts, or start from a folder that they share."});
    else if (each.otherwise == State::error && values.size() == 1 && !values.begin()->first.empty())
      equal.push_back(fmt::format("{} {}", each.name, values.begin()->first));
  }
  if (findings.empty() && !equal.empty())
    findings.push_back(
        {State::ok, "versions", names_of_all(job), fmt::format("Versions: {}.", fmt::join(equal, ", ")), ""});
  return findings;
}

std::vector<Finding> check_equal_cores(const Examination& job) {
  const auto values =
      by_value(job, [](const agents::HostFacts& facts) { return std::to_string(facts.cores.usable); });
  if (values.size() < 2 || job.has_slots) return {};
  return {
      {State::warning, "equal cores", names_of_all(job),
       fmt::format("Usable cores differ: {}; the slowest host decides the time of a step.", in_words(values)),
       "Ask for equal hosts, or give each its number of ranks: -H HOST:RANKS,..."}};
}

std::vector<Finding> check_clocks(const Examination& job) {
  std::vector<Finding> findings;
  std::vector<std::string> right;
  std::int64_t most = 0;
  for (const ExaminedHost& host : job.hosts) {
    if (!host.clock || !host.facts) continue;
    const std::int64_t difference = std::abs(host.clock->offset);
    const auto milliseconds = [](std::int64_t nanoseconds) {
      return static_cast<double>(nanoseconds) / kNanosecondsInMillisecond;
    };
    if (difference <= kMuch + host.clock->bound) {
      right.push_back(host.name);
      most = std::max(most, difference + host.clock->bound);
      continue;
    }
    findings.push_back(
        {difference > kTooMuch ? State::error : State::warning,
         "clocks",
         {host.name},
         fmt::format("Its clock is {:.1f} ms {} of ruedarun's (within {:.2g} ms).", milliseconds(difference),
                     host.clock->offset > 0 ? "ahead" : "behind", milliseconds(host.clock->bound)),
         "Start a time service there: `timedatectl set-ntp true`, or chrony."});
  }
  if (right.size() > 1)
    findings.push_back({State::ok, "clocks", right,
                        fmt::format("Clocks differ from ruedarun's by {:.2g} ms at most.",
                                    static_cast<double>(most) / kNanosecondsInMillisecond),
                        ""});
  return findings;
}

}  // namespace rueda
