// SPDX-License-Identifier: Apache-2.0
// One peer_info for several parts of a rank.
#pragma once

#include <string>

#include "core/engine/runtime_components.h"

namespace rueda {

// Adds `info` to the peer_info that `components` send to the other ranks. When all ranks are known, the parts
// are called in order. Each part sees in the Welcome only the info that it added on each rank, or an empty
// one if that is not readable. All ranks of a job add the same parts in the same order.
void add_peer_info(RuntimeComponents& components, const std::string& info,
                   decltype(RuntimeComponents::on_peers_known) on_peers_known);

}  // namespace rueda
