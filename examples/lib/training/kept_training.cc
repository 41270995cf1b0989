// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/kept_training.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <string>
#include <utility>

#include <rueda/torch.h>
#include "examples/lib/training/training_state.h"

namespace rueda::examples {
namespace {

// Purpose: keeps position and evaluations, which only grow, by their lengths.
class GrowingPart final : public elastic::Part {
 public:
  explicit GrowingPart(KeptTraining& kept) : kept_(kept) { GrowingPart::save(); }

  std::string describe() const override { return "a position"; }
  void save() override {
    step_ = kept_.position.step;
    samples_ = kept_.position.samples;
    steps_known_ = kept_.position.history.losses.size();
    evaluations_ = kept_.evaluations.size();
  }
  void restore() override {
    kept_.position.step = step_;
    kept_.position.samples = samples_;
    kept_.position.history.keep_first(steps_known_);
    kept_.evaluations.resize(std::min(evaluations_, kept_.evaluations.size()));
  }
  // Of steps before it all ranks then have the losses of one.
  void sync(Rank root, const Scope& scope) override {
    std::string bytes = bytes_of({.position = kept_.position, .evaluations = kept_.evaluations});
    broadcast_object(bytes, root, scope);
    FoundCheckpoint found = found_of(bytes);
    kept_.position = std::move(found.position);
    kept_.evaluations = std::move(found.evaluations);
  }

 private:
  KeptTraining& kept_;
  std::int64_t step_ = 0;
  std::uint64_t samples_ = 0;
  std::size_t steps_known_ = 0;
  std::size_t evaluations_ = 0;
};

}  // namespace

KeptTraining::KeptTraining(Task& task, const TrainOptions& options) : task_(task), options_(options) {
  if (!options.elastic) return;
  state_.emplace(
      std::vector<std::pair<std::string, elastic::Kept>>{{"model", task.model()},
                                                         {"optimizer", optimizer().kept()},
                                                         {"position", std::make_shared<GrowingPart>(*this)},
                                                         {"begun", begun}});
}

StepOptimizer& KeptTraining::optimizer() {
  if (!optimizer_) optimizer_ = make_optimizer(task_.model(), options_);
  return *optimizer_;
}

void KeptTraining::run(const std::function<void()>& train) {
  state_ ? elastic::run(*state_, train) : train();
}

void KeptTraining::commit() {
  if (state_) state_->commit();
}

}  // namespace rueda::examples
