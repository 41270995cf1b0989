// SPDX-License-Identifier: Apache-2.0
#include "ops/hierarchy/slices.h"

#include <algorithm>
#include <utility>

namespace rueda {
namespace {

constexpr std::size_t kLine = 64;

}  // namespace

Run even_part(std::size_t bytes, std::size_t part, std::size_t parts) {
  const std::size_t lines = (bytes + kLine - 1) / kLine;
  return {std::min(bytes, lines * part / parts * kLine), std::min(bytes, lines * (part + 1) / parts * kLine)};
}

Slices::Slices(const HostGroups& groups, std::size_t chunk_bytes, std::size_t total, std::size_t most) {
  const std::size_t wanted = std::min(most == 0 ? groups.largest : most, kMost);
  const std::size_t least = most == 0 ? kLeastMessage : kLine;
  const std::size_t fitting = std::min(chunk_bytes, total) / (groups.hosts.size() * least);
  count_ = std::clamp<std::size_t>(fitting, 1, wanted);
}

Owners Slices::owners(const HostGroups& groups, std::size_t chunk, std::size_t slice, Rank rank) const {
  std::vector<std::pair<Rank, std::size_t>> carriers;  // and their hosts
  for (std::size_t host = 0; host < groups.hosts.size(); ++host) {
    const std::vector<Rank>& members = groups.hosts[host];
    carriers.emplace_back(members[owner(chunk, slice, members.size())], host);
  }
  std::ranges::sort(carriers);
  Owners owners;
  RankSet ranks;
  for (const auto& [carrier, host] : carriers) {
    ranks.add(RankSet::of(carrier));
    owners.host_at.push_back(host);
  }
  owners.group = {ranks.index_of(rank), ranks.count(), std::make_shared<const RankSet>(std::move(ranks))};
  return owners;
}

}  // namespace rueda
