// SPDX-License-Identifier: Apache-2.0
// A host's side of ruedarun --doctor.
#pragma once

#include <string>
#include <vector>

#include "core/base/system/secure_channel.h"

namespace rueda {

// The first word of ruedarun when it answers to ruedarun --doctor.
inline constexpr const char* kExaminedHost = "--examined-host";

// Answers until ruedarun has gone, and ends this process.
[[noreturn]] void answer_doctor(SecureChannel channel);

// On another host, with the words of an agent (agent/agent_process.h). Returns an exit status.
int run_examined_host(const std::vector<std::string>& words);

}  // namespace rueda
