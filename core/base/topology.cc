// SPDX-License-Identifier: Apache-2.0
#include "core/base/topology.h"

#include <algorithm>
#include <map>

namespace rueda {

Topology make_topology(Rank rank, std::span<const std::string> hosts) {
  Topology topology;
  topology.rank = rank;
  topology.size = static_cast<Rank>(hosts.size());
  std::map<std::string_view, Rank> ranks_on;  // host -> ranks seen there so far
  std::map<Rank, Rank> hosts_with;            // local rank -> hosts seen so far that have it
  for (Rank r = 0; r < topology.size; ++r) {
    const Rank local = ranks_on[hosts[r]]++;
    const Rank cross = hosts_with[local]++;
    if (r == rank) topology.local_rank = local, topology.cross_rank = cross;
  }
  topology.local_size = ranks_on[hosts[rank]];
  topology.cross_size = hosts_with[topology.local_rank];
  topology.homogeneous =
      std::ranges::all_of(ranks_on, [&](const auto& host) { return host.second == topology.local_size; });
  return topology;
}

}  // namespace rueda
