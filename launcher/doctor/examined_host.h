// SPDX-License-Identifier: Apache-2.0
// A host's side of ruedarun --doctor.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/system/secure_channel.h"
#include "launcher/system/descriptor.h"
#include "launcher/system/signals.h"

namespace rueda {

// The first word of ruedarun when it answers to ruedarun --doctor.
inline constexpr const char* kExaminedHost = "--examined-host";

// Answers until ruedarun has gone, and ends this process.
[[noreturn]] void answer_doctor(SecureChannel channel);

// On this machine, by a child of this process, which ends after the socket's other end. Throws
// std::system_error.
struct ExaminedChild {
  pid_t process = 0;
  Descriptor socket;
};
ExaminedChild fork_examined_host(int host, const AuthenticationKey& key, const SignalState& inherited);

// On another host, with the words of an agent (agent/agent_process.h). Returns an exit status.
int run_examined_host(const std::vector<std::string>& words);

}  // namespace rueda
