// SPDX-License-Identifier: Apache-2.0
// The words for ranks that differ, where the front end's operations have no names.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/control/messages/control_message.h"

namespace rueda {

// Two or more requests under one key differ. The words have the difference, the call of each rank, and the
// remedy. Nothing if the front end has not signed all of them.
std::optional<std::string> mismatch_of_calls(std::span<const RequestOfRanks* const> requests);

}  // namespace rueda
