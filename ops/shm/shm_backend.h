// SPDX-License-Identifier: Apache-2.0
// Operations through memory that the ranks of a host share.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "core/base/system/owner_thread.h"
#include "core/engine/backend.h"
#include "ops/buffers/work_memory.h"
#include "ops/shm/local_peers.h"
#include "ops/shm/one_shot.h"
#include "ops/shm/staged_work.h"
#include "ops/shm/store_policy.h"

namespace rueda {

// Whether the entries are those of the Plan, of its sizes.
bool matches(const Plan& plan, std::span<const Entry> entries);

// Purpose: runs what moves data among ranks that all share memory: of a whole job, or of a process set on one
// of its hosts.
// Owned by the background thread.
class ShmBackend final : public Backend {
 public:
  // `near` says on rank 0 whether all members of a Plan reach each other. `slots`: how many are used, the
  // same on all ranks; fewer than there are only in tests.
  ShmBackend(Rank rank, std::shared_ptr<LocalPeers> local_peers, std::function<bool(const Plan&)> near,
             std::size_t slots)
      : rank_(rank), local_peers_(std::move(local_peers)), near_(std::move(near)), slots_(slots) {}

  std::string_view name() const override { return "shm"; }
  bool can_run(const Plan& plan) const override;
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) override;
  bool flows(const Plan& plan) const override;
  bool rings_doorbell() const override { return true; }

 private:
  const PeerGroup* peers_of(const Plan& plan);

  Rank rank_;
  std::shared_ptr<LocalPeers> local_peers_;
  std::function<bool(const Plan&)> near_;
  std::size_t slots_;
  std::shared_ptr<const RankSet> members_;  // of the last Plan
  const PeerGroup* peers_ = nullptr;        // the same; null: not all are reached
  std::array<LastUse, SegmentContents::kSlots> last_use_;
  std::array<LastUse, SegmentContents::kAreas> last_area_use_;
  std::array<std::array<StorePolicies, 65>, kOperationCount> stores_;  // by the bits of its bytes
  Memory memory_;
  OwnerThread owner_;
};

}  // namespace rueda
