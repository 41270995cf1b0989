// SPDX-License-Identifier: Apache-2.0
// The global, local and cross rank of a process, from the hosts of all ranks. Values only.
#pragma once

#include <span>
#include <string>

#include "rueda/types.h"

namespace rueda {

// The numbers of one process among all. "Cross" counts the ranks of equal local_rank over hosts.
struct Topology {
  Rank rank = 0;
  Rank size = 1;
  Rank local_rank = 0;
  Rank local_size = 1;
  Rank cross_rank = 0;
  Rank cross_size = 1;
  bool homogeneous = true;

  friend bool operator==(const Topology&, const Topology&) = default;
};

// The topology of `rank` when hosts[r] is the name of rank r's host. `kept`: the local ranks that they had
// before, and keep, since a program chooses its device by that; -1, or no list: none. Others get the lowest
// that are free on their host.
Topology make_topology(Rank rank, std::span<const std::string> hosts, std::span<const Rank> kept = {});

}  // namespace rueda
