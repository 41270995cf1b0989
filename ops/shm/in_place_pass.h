// SPDX-License-Identifier: Apache-2.0
// The passage of an operation through tensors that all ranks of a host reach.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "core/engine/work.h"
#include "ops/shm/area_progress.h"
#include "ops/shm/store_policy.h"

namespace rueda {

// Purpose: what an operation does in an InPlacePass.
class InPlaceOperation {
 public:
  // A piece of this rank's part, of the tensors of all; called again until it says done. May throw
  // WorkFailure.
  virtual Work::Step take_in_place(std::span<std::byte* const> /*offers*/) { return Work::Step::done; }

 protected:
  ~InPlaceOperation() = default;
};

// Purpose: each rank reduces its part in the tensors of all, says `taken`, and waits until all have. Part of
// a StagedWork.
class InPlacePass {
 public:
  enum class State { reducing, waiting_for_others, over };

  void begin(std::span<std::byte* const> offers) { offers_ = offers; }
  // Done: all have reduced their parts, or a rank has abandoned the Plan.
  Work::Step step(InPlaceOperation& operation, AreaProgress& area, TimedStores& stores);
  State state() const { return state_; }

 private:
  State state_ = State::reducing;
  std::span<std::byte* const> offers_;
};

std::string_view to_string(InPlacePass::State state);

}  // namespace rueda
