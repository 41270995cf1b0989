// SPDX-License-Identifier: Apache-2.0
// Operations of ranks on several hosts: inside each by shared memory, between them by messages.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "core/base/system/owner_thread.h"
#include "core/engine/backend.h"
#include "ops/algorithms/link_backend.h"
#include "ops/link/host_groups.h"
#include "ops/shm/local_peers.h"

namespace rueda {

// The shared state of hierarchies over several links: all of them use the wide areas.
struct WideAreas {
  std::size_t most_slices = 0;  // as rank 0 has been told; known once all ranks are there
  std::array<LastUse, SegmentContents::kWideAreas> last_use;
};

// Purpose: carries data over each host's network card once, where its ranks share memory. Owned by the
// background thread.
class HierarchyBackend final : public Backend {
 public:
  // `below` moves what goes from host to host; it outlives all Works.
  HierarchyBackend(Rank rank, LinkBackend& below, std::shared_ptr<LocalPeers> local_peers,
                   std::shared_ptr<Hosts> hosts, std::shared_ptr<WideAreas> areas);

  std::string_view name() const override { return name_; }
  bool can_run(const Plan& plan) const override;
  void decide(Plan& plan) const override;
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) override;
  double predicted_seconds(const Plan& plan) const override;
  bool flows(const Plan& plan) const override { return plan.operation == Operation::allreduce; }
  bool rings_doorbell() const override { return below_.rings_doorbell(); }

 private:
  bool fits(const Plan& plan, const HostGroups& groups) const;

  const std::string name_;
  const Rank rank_;
  LinkBackend& below_;
  std::shared_ptr<LocalPeers> local_peers_;
  std::shared_ptr<Hosts> hosts_;
  std::shared_ptr<WideAreas> areas_;
  OwnerThread owner_;
};

}  // namespace rueda
