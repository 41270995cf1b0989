// SPDX-License-Identifier: Apache-2.0
#include "ops/link/host_groups.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace rueda {
namespace {

constexpr std::size_t kMostKnown = 1024;  // sets, before all are forgotten

std::shared_ptr<const HostGroups> grouped(const RankSet& members, const std::vector<Rank>& leader_of) {
  HostGroups groups;
  std::map<Rank, std::size_t> host_with;  // this leader
  for (Rank index = 0; index < members.count(); ++index) {
    const Rank rank = members.at(index), leader = leader_of[rank];
    const auto [host, is_new] = host_with.emplace(leader, groups.hosts.size());
    if (is_new) {
      groups.hosts.emplace_back();
      groups.leaders.push_back(leader);
    }
    groups.hosts[host->second].push_back(rank);
    groups.largest = std::max(groups.largest, groups.hosts[host->second].size());
  }
  return std::make_shared<const HostGroups>(std::move(groups));
}

}  // namespace

std::vector<Rank> HostGroups::all() const {
  std::vector<Rank> all;
  for (const std::vector<Rank>& members : hosts) all.insert(all.end(), members.begin(), members.end());
  return all;
}

std::size_t HostGroups::host_of(Rank rank) const {
  const auto found = std::ranges::find_if(
      hosts, [rank](const auto& host) { return std::ranges::binary_search(host, rank); });
  RUEDA_ASSERT(found != hosts.end());
  return static_cast<std::size_t>(found - hosts.begin());
}

std::size_t HostGroups::index_of(Rank rank) const {
  const std::vector<Rank>& host = hosts[host_of(rank)];
  return static_cast<std::size_t>(std::ranges::lower_bound(host, rank) - host.begin());
}

void Hosts::set_names(const std::vector<std::string>& names) {
  std::map<std::string, Rank> leaders;
  leader_of_.clear();
  for (const std::string& name : names)
    leader_of_.push_back(leaders.emplace(name, static_cast<Rank>(leader_of_.size())).first->second);
}

std::shared_ptr<const HostGroups> Hosts::groups(const Plan& plan) {
  if (known_.size() > kMostKnown) known_.clear();
  Known& known = known_[plan.process_set];
  if (known.members != plan.members) known = {plan.members, grouped(*plan.members, leader_of_)};
  return known.groups;
}

bool Hosts::share_memory(const HostGroups& groups) const {
  return std::ranges::all_of(groups.leaders, complete_);
}

}  // namespace rueda
