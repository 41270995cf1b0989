// SPDX-License-Identifier: Apache-2.0
#include "core/base/topology.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace rueda {
namespace {

std::vector<Rank> local_ranks(std::span<const std::string> hosts, std::span<const Rank> kept) {
  std::vector<Rank> local(hosts.size(), -1);
  std::map<std::string_view, std::set<Rank>> used;
  for (std::size_t rank = 0; rank < kept.size(); ++rank)
    if (kept[rank] >= 0 && used[hosts[rank]].insert(kept[rank]).second) local[rank] = kept[rank];
  std::map<std::string_view, Rank> lowest;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (local[rank] >= 0) continue;
    Rank& next = lowest[hosts[rank]];
    while (used[hosts[rank]].contains(next)) ++next;
    local[rank] = next++;
  }
  return local;
}

}  // namespace

Topology make_topology(Rank rank, std::span<const std::string> hosts, std::span<const Rank> kept) {
  const std::vector<Rank> local = local_ranks(hosts, kept);
  const auto own = static_cast<std::size_t>(rank);
  Topology topology{.rank = rank, .size = static_cast<Rank>(hosts.size()), .local_rank = local[own]};
  std::map<std::string_view, Rank> ranks_on;
  topology.cross_size = 0;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    ++ranks_on[hosts[r]];
    if (local[r] != local[own]) continue;
    if (r == own) topology.cross_rank = topology.cross_size;
    ++topology.cross_size;
  }
  topology.local_size = ranks_on[hosts[own]];
  topology.homogeneous =
      std::ranges::all_of(ranks_on, [&](const auto& host) { return host.second == topology.local_size; });
  return topology;
}

}  // namespace rueda
