// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/tree.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace rueda::tree {
namespace {

// In a tree by number the children of n are n * radix + 1 and the next radix - 1.
std::vector<Rank> numbered_children(Rank number, Rank size, Rank radix) {
  std::vector<Rank> result;
  const std::int64_t first = std::int64_t{number} * radix + 1;
  for (std::int64_t child = first; child < std::min<std::int64_t>(first + radix, size); ++child)
    result.push_back(static_cast<Rank>(child));
  return result;
}

// Children of consecutive numbers are consecutive, so each level of a subtree is one range.
RankSet numbered_subtree(Rank number, Rank size, Rank radix) {
  RankSet numbers;
  std::int64_t first = number, end = std::int64_t{number} + 1;
  while (first < size) {
    numbers.add(static_cast<Rank>(first), static_cast<Rank>(std::min<std::int64_t>(end, size)));
    first = first * radix + 1;
    end = end * radix + 1;
  }
  return numbers;
}

// Purpose: the ranks of each host, hosts in the order of their leaders. Lives while trees are made.
class Hosts {
 public:
  explicit Hosts(std::span<const std::string> names) : host_of_(names.size()) {
    std::unordered_map<std::string, Rank> numbers;
    for (Rank rank = 0; rank < static_cast<Rank>(names.size()); ++rank) {
      auto [entry, fresh] = numbers.try_emplace(names[rank], static_cast<Rank>(members_.size()));
      if (fresh) members_.emplace_back();
      host_of_[rank] = entry->second;
      members_[entry->second].add(rank, rank + 1);
    }
  }

  Rank size() const { return static_cast<Rank>(members_.size()); }
  Rank host_of(Rank rank) const { return host_of_[rank]; }
  const RankSet& members(Rank host) const { return members_[host]; }
  Rank leader(Rank host) const { return members_[host].first(); }

  RankSet below(Rank host, Rank radix) const {
    RankSet ranks;
    const RankSet hosts = numbered_subtree(host, size(), radix);
    for (Rank i = 0; i < hosts.count(); ++i) ranks.add(members_[hosts.at(i)]);
    return ranks;
  }

 private:
  std::vector<Rank> host_of_;
  std::vector<RankSet> members_;
};

Rank parent_of(Rank rank, const Hosts& hosts, Rank radix) {
  const Rank host = hosts.host_of(rank);
  const Rank leader = hosts.leader(host);
  if (rank != leader) return leader;
  return host == 0 ? 0 : hosts.leader((host - 1) / radix);
}

TreeNode node_of(Rank rank, const Hosts& hosts, Rank radix) {
  const Rank host = hosts.host_of(rank);
  TreeNode node{rank, parent_of(rank, hosts, radix), {}, {}, RankSet::of(rank)};
  if (rank != hosts.leader(host)) return node;
  auto add = [&](Rank child, RankSet below) {
    node.children.push_back(child);
    node.subtree.add(below);
    node.child_subtrees.push_back(std::move(below));
  };
  std::vector<std::pair<Rank, RankSet>> children;
  const RankSet& members = hosts.members(host);
  for (Rank i = 1; i < members.count(); ++i) children.emplace_back(members.at(i), RankSet::of(members.at(i)));
  for (Rank child : numbered_children(host, hosts.size(), radix))
    children.emplace_back(hosts.leader(child), hosts.below(child, radix));
  std::ranges::sort(children, {}, &std::pair<Rank, RankSet>::first);
  for (auto& [child, below] : children) add(child, std::move(below));
  return node;
}

}  // namespace

TreeNode by_rank(Rank rank, Rank size, Rank radix) {
  TreeNode node{rank,
                rank == 0 ? 0 : (rank - 1) / radix,
                numbered_children(rank, size, radix),
                {},
                numbered_subtree(rank, size, radix)};
  for (Rank child : node.children) node.child_subtrees.push_back(numbered_subtree(child, size, radix));
  return node;
}

TreeNode by_host(Rank rank, std::span<const std::string> hosts) {
  return node_of(rank, Hosts(hosts), kRadix);
}

std::vector<Rank> parents_by_host(std::span<const std::string> hosts, Rank radix) {
  const Hosts known(hosts);
  std::vector<Rank> parents(hosts.size());
  for (Rank rank = 0; rank < static_cast<Rank>(hosts.size()); ++rank)
    parents[rank] = parent_of(rank, known, radix);
  return parents;
}

std::vector<TreeNode> all_by_host(std::span<const std::string> hosts, Rank radix) {
  const Hosts known(hosts);
  std::vector<TreeNode> nodes;
  nodes.reserve(hosts.size());
  for (Rank rank = 0; rank < static_cast<Rank>(hosts.size()); ++rank)
    nodes.push_back(node_of(rank, known, radix));
  return nodes;
}

}  // namespace rueda::tree
