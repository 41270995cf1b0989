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

namespace rueda {

// Purpose: reads /proc, /sys and the limits of this process's control group. What is not there counts as 0.
// Owned by the agent's thread.
class HostLoadReader {
 public:
  // `root`: of the files, empty but in tests.
  explicit HostLoadReader(std::string root = "") : root_(std::move(root)) {}

  // `busy` counts from the call before, the first time from the start of the machine. It is the share of
  // those processors that this process may use. Where its control group may use less than these, it is the
  // share of that, and the first time 0.
  agents::HostLoad read();
  // The same, of these processors and at this time.
  agents::HostLoad read(const std::set<int>& processors, std::int64_t now_ns);

 private:
  void read_processors(agents::HostLoad& load, const std::set<int>& processors);
  void read_limited(agents::HostLoad& load, const CgroupLimits& limits);
  void read_memory(agents::HostLoad& load, const CgroupLimits& limits) const;
  void read_cards(agents::HostLoad& load) const;
  void read_speeds(agents::HostLoad& load);
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
  struct CardSpeeds {
    CardTraffic traffic;
    std::map<std::string, CardTraffic::Speed> last{};  // by card
    std::optional<std::int64_t> at_ns{};
  };
  CardSpeeds speeds_;
};

}  // namespace rueda
