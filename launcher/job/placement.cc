// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

namespace rueda {
namespace {

// The host of every rank, as an index into the hosts of a job.
std::vector<std::size_t> hosts_by_rank(const std::vector<HostRanks>& hosts) {
  std::size_t size = 0;
  for (const HostRanks& host : hosts) size += host.ranks.size();
  std::vector<std::size_t> found(size);
  for (std::size_t host = 0; host < hosts.size(); ++host)
    for (const SlotInfo& slot : hosts[host].ranks) found[static_cast<std::size_t>(slot.rank)] = host;
  return found;
}

HostRanks& host_named(std::vector<HostRanks>& hosts, const std::string& name) {
  const auto found = std::ranges::find(hosts, name, &HostRanks::host);
  return found == hosts.end() ? hosts.emplace_back(HostRanks{name, {}}) : *found;
}

// Once it is known how many ranks each host has.
void fill_in_sizes(std::vector<HostRanks>& hosts, int ranks) {
  std::vector<int> hosts_with;  // so many local ranks, by local rank
  for (HostRanks& host : hosts) {
    for (SlotInfo& slot : host.ranks) {
      const auto local = static_cast<std::size_t>(slot.local_rank);
      if (hosts_with.size() == local) hosts_with.push_back(0);
      slot.size = ranks;
      slot.local_size = static_cast<int>(host.ranks.size());
      slot.cross_rank = hosts_with[local]++;
    }
  }
  for (HostRanks& host : hosts)
    for (SlotInfo& slot : host.ranks) slot.cross_size = hosts_with[static_cast<std::size_t>(slot.local_rank)];
}

}  // namespace

std::vector<HostSlots> host_slots_from(const std::string& hosts) {
  std::vector<HostSlots> found;
  std::istringstream list(hosts);
  for (std::string host; std::getline(list, host, ',');) {
    const std::size_t colon = host.rfind(':');
    HostSlots& fresh = found.emplace_back(HostSlots{host.substr(0, colon), 1});
    if (colon != std::string::npos)
      std::from_chars(host.data() + colon + 1, host.data() + host.size(), fresh.slots);
  }
  return found;
}

int slots_of(const std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  return slots;
}

std::vector<HostRanks> place_ranks(int ranks, const std::vector<HostSlots>& hosts, const std::string& here) {
  const std::vector<HostSlots> all = hosts.empty() ? std::vector{HostSlots{here, ranks}} : hosts;
  std::vector<HostRanks> placed;
  for (int rank = 0; rank < ranks;) {
    for (const HostSlots& host : all) {
      for (int slot = 0; slot < std::max(1, host.slots) && rank < ranks; ++slot) {
        std::vector<SlotInfo>& slots = host_named(placed, host.name).ranks;
        slots.push_back({.rank = rank++, .local_rank = static_cast<int>(slots.size())});
      }
    }
  }
  fill_in_sizes(placed, ranks);
  return placed;
}

std::string process_mapping(const std::vector<HostRanks>& hosts) {
  const std::vector<std::size_t> of_rank = hosts_by_rank(hosts);
  std::string text = "(vector";
  for (std::size_t begin = 0; begin < of_rank.size();) {
    const auto first = of_rank.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto end = std::find_if(first, of_rank.end(), [&](std::size_t host) { return host != *first; });
    text += fmt::format(",({},1,{})", *first, end - first);
    begin = static_cast<std::size_t>(end - of_rank.begin());
  }
  return text + ")";
}

}  // namespace rueda
