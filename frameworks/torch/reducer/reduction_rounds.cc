// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/reduction_rounds.h"

namespace rueda {
namespace {

// Purpose: a step waits for its own reductions.
class SameStep final : public ReductionRounds {
 public:
  using ReductionRounds::ReductionRounds;
  bool turn(const std::function<void()>& /*detach*/) override { return true; }
  bool overlaps() const override { return false; }
  bool on_its_way() const override { return false; }
};

// Purpose: a step waits for those of the step before, and leaves its own on their way: two rounds take turns.
class OneStepLate final : public ReductionRounds {
 public:
  using ReductionRounds::ReductionRounds;
  bool turn(const std::function<void()>& detach) override {
    detach();
    current_ = other();
    return current().presence_submitted();
  }
  bool overlaps() const override { return true; }
  bool on_its_way() const override { return rounds_[other()].presence_submitted(); }

 private:
  std::size_t other() const { return 1 - current_; }
};

}  // namespace

std::unique_ptr<ReductionRounds> make_rounds(SyncSchedule::Kind schedule,
                                             const std::function<ReductionRound(const char*)>& make) {
  std::vector<ReductionRound> rounds;
  if (schedule != SyncSchedule::Kind::one_step_late) {
    rounds.push_back(make(""));
    return std::make_unique<SameStep>(std::move(rounds));
  }
  rounds.push_back(make(".even"));
  rounds.push_back(make(".odd"));
  return std::make_unique<OneStepLate>(std::move(rounds));
}

}  // namespace rueda
