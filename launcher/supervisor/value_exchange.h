// SPDX-License-Identifier: Apache-2.0
// Values and barriers that ranks of all hosts share by way of ruedarun.
#pragma once

#include <map>
#include <set>
#include <string>

#include "launcher/supervisor/agent_server.h"

namespace rueda {

// Purpose: passes each value on to the agents of all hosts, and ends a barrier when all have entered it.
// Messages to one agent keep their order, so whoever leaves a barrier sees all values from before. Owned by
// the main thread of the supervisor.
class ValueExchange {
 public:
  ValueExchange(AgentServer& agents, std::size_t hosts) : agents_(agents), hosts_(hosts) {}

  void put(const agents::Put& put);
  void enter_barrier(int host);
  // An agent has come: it learns the values of earlier ones.
  void welcome(int host);

 private:
  static constexpr std::size_t kMostValues = 1 << 18;  // of 4 KiB at most

  AgentServer& agents_;
  const std::size_t hosts_;
  std::map<std::string, std::string> values_;
  std::set<int> in_barrier_;
};

}  // namespace rueda
