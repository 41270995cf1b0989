// SPDX-License-Identifier: Apache-2.0
// The process of an agent: how it comes to be, and meets ruedarun.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/base/system/authentication.h"
#include "core/base/system/descriptor.h"
#include "launcher/protocol/invitation.h"

namespace rueda {

// On the host of ruedarun: forks a janitor, and below it an agent. It meets ruedarun at the other end of
// `socket`. Returns the process number of the janitor. Throws std::system_error.
pid_t fork_agent(Descriptor socket, const AuthenticationKey& key, int host);

// How a process on another host meets ruedarun. Its words are NUMBER [NAME]. NUMBER is the host's, or the
// variable that holds it; NAME is the variable that holds its name. The first line of standard input, or the
// variable RUEDA_LAUNCH_AGENT, is an Invitation; nothing else is.
struct AgentCall {
  std::optional<Invitation> invitation;
  AgentIntroduction introduction;
};
AgentCall read_call(const std::vector<std::string>& words);
int say_unreachable(const AgentCall& call);  // returns an exit status

// On another host, as `ruedarun --agent -- NUMBER [NAME]`. Ends the process.
[[noreturn]] void run_agent(const std::vector<std::string>& words);

}  // namespace rueda
