// SPDX-License-Identifier: Apache-2.0
// Operations through memory that the ranks of a host share.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "core/base/owner_thread.h"
#include "core/engine/backend.h"
#include "ops/memory.h"
#include "ops/shm/neighbours.h"
#include "ops/shm/one_shot.h"
#include "ops/shm/staged_work.h"

namespace rueda {

// Purpose: runs what moves data, of any process set, in jobs whose ranks all share memory.
// Owned by the coordinator thread.
class ShmBackend final : public Backend {
 public:
  // `complete` says on rank 0 whether every rank of the job reaches every other. `slots`: how many are used,
  // the same on all ranks; fewer than there are only in tests.
  ShmBackend(Rank rank, std::shared_ptr<Neighbours> neighbours, std::function<bool()> complete,
             std::size_t slots)
      : rank_(rank), neighbours_(std::move(neighbours)), complete_(std::move(complete)), slots_(slots) {}

  std::string_view name() const override { return "shm"; }
  bool can_run(const Plan& plan) const override { return fits(plan) && complete_(); }
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) override;
  bool rings_bell() const override { return true; }

 private:
  static bool fits(const Plan& plan);

  Rank rank_;
  std::shared_ptr<Neighbours> neighbours_;
  std::function<bool()> complete_;
  std::size_t slots_;
  std::array<LastUse, SegmentContents::kSlots> last_use_;
  std::array<LastUse, SegmentContents::kAreas> last_area_use_;
  Memory memory_;
  OwnerThread owner_;
};

}  // namespace rueda
