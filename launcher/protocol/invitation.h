// SPDX-License-Identifier: Apache-2.0
// How an agent on another host learns where ruedarun is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/system/authentication.h"

namespace rueda {

// Purpose: the line that ruedarun writes to the standard input of the program that starts an agent. Whoever
// reads it can join the job: it stands in no command line and in no environment that others can read. A plain
// value.
struct Invitation {
  AuthenticationKey key{};
  std::string addresses;  // see protocol/listener.h
  bool operator==(const Invitation&) const = default;
};

std::string to_text(const Invitation& invitation);  // without an end of line
// Nothing when `text` is none.
std::optional<Invitation> invitation_from(std::string_view text);

// Purpose: which host an agent is on, the first words over its connection. A plain value.
struct AgentIntroduction {
  int host = 0;      // its number in the job
  std::string name;  // by which a resource manager knows it; empty: the number counts
  bool operator==(const AgentIntroduction&) const = default;
};

std::string to_text(const AgentIntroduction& introduction);
std::optional<AgentIntroduction> introduction_from(std::string_view text);

}  // namespace rueda
