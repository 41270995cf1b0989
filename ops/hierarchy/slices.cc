// SPDX-License-Identifier: Apache-2.0
#include "ops/hierarchy/slices.h"

#include <algorithm>

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

Group Slices::owners(const HostGroups& groups, std::size_t chunk, std::size_t slice, std::size_t host) const {
  Group group{static_cast<Rank>(host), static_cast<Rank>(groups.hosts.size()), nullptr, {}};
  for (const std::vector<Rank>& members : groups.hosts)
    group.in_order.push_back(members[owner(chunk, slice, members.size())]);
  return group;
}

}  // namespace rueda
