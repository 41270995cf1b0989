// SPDX-License-Identifier: Apache-2.0
// Which ranks run on which host.
#pragma once

#include <string>
#include <vector>

namespace rueda {

// The numbers of a rank: in the job, on its host, and among the ranks with its local rank on all hosts
// ("cross").
struct SlotInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
  bool operator==(const SlotInfo&) const = default;
};

// A host, and how many ranks it takes before the next one is filled.
struct HostSlots {
  std::string name;
  int slots = 1;
  bool operator==(const HostSlots&) const = default;
};

// "a:2,b"; a host without a number takes one.
std::vector<HostSlots> host_slots_from(const std::string& hosts);

// Of all hosts.
int slots_of(const std::vector<HostSlots>& hosts);

// The ranks of one host.
struct HostRanks {
  std::string host;
  std::vector<SlotInfo> ranks;
  bool operator==(const HostRanks&) const = default;
};

// Ranks fill the hosts in order, again from the first one when the slots do not suffice. A host may stand in
// the list more than once. Hosts that take no rank are left out. Without hosts: `here`.
std::vector<HostRanks> place_ranks(int ranks, const std::vector<HostSlots>& hosts, const std::string& here);

// The same as PMI has it under PMI_process_mapping: "(vector,(0,1,2),(1,1,2))", each with the first host, how
// many hosts, and how many ranks on each.
std::string process_mapping(const std::vector<HostRanks>& hosts);

}  // namespace rueda
