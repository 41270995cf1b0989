// SPDX-License-Identifier: Apache-2.0
// How busy this machine is: processors, memory and network cards.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/protocol/observation.h"

namespace rueda {

// Purpose: reads /proc, /sys and the limits of this process's control group. What is not there counts as 0.
// Owned by the agent's thread.
class HostLoadReader {
 public:
  // `root`: of the files, empty but in tests.
  explicit HostLoadReader(std::string root = "") : root_(std::move(root)) {}

  // `busy` counts from the call before, the first time from the start of the machine.
  agents::HostLoad read();

 private:
  void read_processors(agents::HostLoad& load);
  void read_memory(agents::HostLoad& load) const;
  void read_cards(agents::HostLoad& load) const;
  std::string text_of(const std::string& path) const;
  std::string control_group() const;

  const std::string root_;
  std::uint64_t busy_before_ = 0;  // of all processors, in ticks
  std::uint64_t all_before_ = 0;
};

}  // namespace rueda
