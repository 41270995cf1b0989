// SPDX-License-Identifier: Apache-2.0
// How busy this machine is: processors, memory and network cards.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "launcher/protocol/observation.h"
#include "launcher/system/card_traffic.h"
#include "launcher/system/cgroup_limits.h"
#include "launcher/system/machine.h"

namespace rueda {

// Purpose: reads /proc, /sys and the limits of this process's control group. What is not there counts as 0.
// Owned by the agent's thread.
class HostLoadReader {
 public:
  // `root`: of the files, empty but in tests.
  explicit HostLoadReader(std::string root = "") : root_(std::move(root)) {}

  // `busy` counts from the call before, the first time from the start of the machine. It is the share of
  // those processors that this process may use. Where its control group may use less than these, it is the
  // share of that, and the first time 0. Memory, load, limits and speeds of cards are at most a second
  // old.
  agents::HostLoad read();
  // The same, of these processors and at this time.
  agents::HostLoad read(const std::set<int>& processors, std::int64_t now_ns);

 private:
  void read_rare(std::int64_t now_ns);
  void read_processors(agents::HostLoad& load, const std::set<int>& processors);
  double busy_of_limit(std::int64_t now_ns);
  void show_limited(agents::HostLoad& load) const;
  void show_memory(agents::HostLoad& load) const;
  void read_cards(agents::HostLoad& load);
  double limit_of_card(const std::string& name) const;  // bytes per second; 0: none
  std::string text_of(const std::string& path) const;

  const std::string root_;
  std::uint64_t busy_before_ = 0;  // of the processors, in ticks
  std::uint64_t all_before_ = 0;
  // Of the control group.
  struct Usage {
    std::uint64_t microseconds = 0;
    std::int64_t at_ns = 0;
  };
  std::optional<Usage> usage_before_;
  CardTraffic traffic_;
  // Read once a second, since it takes most of the time.
  struct Rare {
    std::optional<std::int64_t> at_ns{};
    CgroupLimits limits{};
    double busy = 0;  // of the control group's limit
    MachineMemory memory{};
    double load = 0;
    std::map<std::string, double> card_limits{};  // by card
    std::map<std::string, CardTraffic::Speed> speeds{};
  };
  Rare rare_;
};

}  // namespace rueda
