// SPDX-License-Identifier: Apache-2.0
// Which step's reductions a step waits for.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "frameworks/torch/reducer/reduction_round.h"
#include "rueda/torch/local_sgd/sync_schedule.h"

namespace rueda {

// Purpose: the strategy that gives each step a ReductionRound, and the optimizer a round to step on: that of
// the same step, or of the step before. Belongs to a StepReduction; guarded with it.
class ReductionRounds {
 public:
  explicit ReductionRounds(std::vector<ReductionRound> rounds) : rounds_(std::move(rounds)) {}
  virtual ~ReductionRounds() = default;
  ReductionRounds(const ReductionRounds&) = delete;
  ReductionRounds& operator=(const ReductionRounds&) = delete;

  // That of the step whose gradients are coming; after turn(), that whose results are due.
  ReductionRound& current() { return rounds_[current_]; }
  const ReductionRound& current() const { return rounds_[current_]; }
  std::size_t number() const { return current_; }  // of the current one
  const std::vector<ReductionRound>& all() const { return rounds_; }

  // Call it after the last submission of a step. Switches to the round to wait for. False if there is none.
  // `detach` frees .grad of the current round's gradients.
  virtual bool turn(const std::function<void()>& detach) = 0;
  // Whether steps overlap, so that a round may be on its way while the current one collects; and whether one
  // is.
  virtual bool overlaps() const = 0;
  virtual bool on_its_way() const = 0;

 protected:
  std::vector<ReductionRound> rounds_;
  std::size_t current_ = 0;
};

// The rounds of the schedule. `make` gets the part that is added to the names of a round's operations.
std::unique_ptr<ReductionRounds> make_rounds(SyncSchedule::Kind schedule,
                                             const std::function<ReductionRound(const char*)>& make);

}  // namespace rueda
