// SPDX-License-Identifier: Apache-2.0
// An agent's way to ruedarun, from another host.
#pragma once

#include <chrono>
#include <optional>

#include "core/base/system/secure_channel.h"
#include "launcher/protocol/invitation.h"

namespace rueda {

// Tries every address, again and again, until the ruedarun of this job answers. Nothing when none does.
// Blocks: called before any rank starts.
std::optional<SecureChannel> connect_to_supervisor(
    const Invitation& invitation, const AgentIntroduction& introduction,
    std::chrono::milliseconds timeout = std::chrono::seconds(10));

}  // namespace rueda
