// SPDX-License-Identifier: Apache-2.0
// Which ranks stand on which host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/control/messages/plan.h"

namespace rueda {

// The members of a process set, host by host: hosts in the order of their lowest member, members ascending.
// The same on all ranks.
struct HostGroups {
  std::vector<std::vector<Rank>> hosts;
  std::vector<Rank> leaders;  // of the hosts: the lowest ranks there, members or not
  std::size_t largest = 0;    // the most members on one host

  std::vector<Rank> all() const;  // of them, host by host
  // The host of a rank, and the rank's index there. The rank must be a member.
  std::size_t host_of(Rank rank) const;
  std::size_t index_of(Rank rank) const;
};

// Purpose: the hosts of a job, for the backends that tell near from far. Shared by them; made before the
// ranks meet, then owned by the background thread.
class Hosts {
 public:
  // `complete`, asked on rank 0: do all ranks of the host with this leader share memory?
  explicit Hosts(std::function<bool(Rank leader)> complete) : complete_(std::move(complete)) {}

  // The name of each rank's host.
  void set_names(const std::vector<std::string>& names);

  std::shared_ptr<const HostGroups> groups(const Plan& plan);
  // On rank 0: whether that is true of all hosts where members are.
  bool share_memory(const HostGroups& groups) const;

 private:
  struct Known {
    std::shared_ptr<const RankSet> members;
    std::shared_ptr<const HostGroups> groups;
  };

  std::function<bool(Rank)> complete_;
  std::vector<Rank> leader_of_;          // of each rank's host
  std::map<ProcessSetId, Known> known_;  // of the sets that Plans came from
};

}  // namespace rueda
