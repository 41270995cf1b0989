// SPDX-License-Identifier: Apache-2.0
// One peer_info for several parts of a rank.
#pragma once

#include <string>

#include "core/engine/runtime_components.h"

namespace rueda {

// Adds `info` to what `components` tell the other ranks. When all are there, and what the parts have had to
// do so far is done, `meet` gets a Welcome in which each rank's peer_info is the one that this part of it has
// added; empty where that cannot be read. All ranks of a job add the same ones in the same order.
void add_peer_info(RuntimeComponents& components, const std::string& info,
                   decltype(RuntimeComponents::meet) meet);

}  // namespace rueda
