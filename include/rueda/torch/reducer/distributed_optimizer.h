// SPDX-License-Identifier: Apache-2.0
// A LibTorch optimizer that steps on the reduced gradients of all ranks.
#pragma once

#include <c10/core/GradMode.h>
#include <torch/optim/optimizer.h>

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "rueda/torch/reducer/gradient_reducer.h"
#include "rueda/torch/state/parameter_groups.h"

namespace torch::optim {
class LBFGS;
}  // namespace torch::optim

namespace rueda {

// Purpose: an `Opt` (torch::optim::SGD, AdamW, ...) that reduces gradients over all ranks before it steps.
// It derives from Opt, so schedulers, torch::save, torch::load and functions of an Optimizer& work. Used by
// one thread. All ranks construct their optimizers in one order (GradientReducer).
template <class Opt>
class DistributedOptimizer : public Opt, public HasGradientReducer {
  static_assert(
      !std::is_same_v<Opt, torch::optim::LBFGS>,
      "LBFGS evaluates its closure several times in one step, which ranks would do a different number of "
      "times. Use GradientReducer inside a closure instead.");

 public:
  // Computes the loss and its gradients again.
  using LossClosure = torch::optim::Optimizer::LossClosure;

  // `options` are those of Opt, such as torch::optim::AdamWOptions. `scope` is all ranks, or a process set.
  // All ranks of the scope construct the optimizer. In an elastic job it may be made before elastic::run().
  // Throws the exceptions of GradientReducer.
  template <class Options>
  DistributedOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups, Options options,
                       const DistributedOptions& distributed = {}, const Scope& scope = {})
      : Opt(std::move(groups), std::move(options)),
        reducer_(parameters_of(this->param_groups()), distributed, scope) {}
  template <class Options>
  DistributedOptimizer(std::vector<at::Tensor> parameters, Options options,
                       const DistributedOptions& distributed = {}, const Scope& scope = {})
      : Opt(std::move(parameters), std::move(options)),
        reducer_(parameters_of(this->param_groups()), distributed, scope) {}

  // Waits for the reductions of this step. Then .grad holds the reduced gradients, which you may clip
  // before step(). Returns false if the schedule reduces nothing in this step: then do not clip.
  bool synchronize() { return reducer_.synchronize(); }
  // step() does not synchronize while the result lives. With schedule every_step only.
  [[nodiscard]] auto skip_synchronize() { return reducer_.skip_synchronize(); }
  // Backward passes only add to .grad while the result lives. They do not count as passes of a step.
  [[nodiscard]] auto no_sync() { return reducer_.no_sync(); }
  // Both call synchronize(), then return the 2-norm of all gradients. The norm is 0 if synchronize()
  // returns false. clip_grad_norm_ scales the gradients down to `max_norm` unless the norm is not finite.
  // It returns the norm before.
  GradientNorm grad_norm() { return reducer_.grad_norm(); }
  GradientNorm clip_grad_norm_(double max_norm) { return reducer_.clip_grad_norm_(max_norm); }

  // Runs `closure` once with gradients enabled. Then calls synchronize() unless done, and steps if the
  // schedule says so.
  at::Tensor step(LossClosure closure = nullptr) override {
    reducer_.check_parameters(parameters_of(this->param_groups()));
    at::Tensor loss;
    if (closure) {
      at::AutoGradMode gradients_on(true);
      loss = closure();
    }
    if (reducer_.before_step()) Opt::step(nullptr);
    reducer_.after_step();
    return loss;
  }

  // Hides Optimizer::zero_grad, which is not virtual. Throws InvalidArgument while gradients are being
  // reduced. Keeps the gradients while the schedule adds them up.
  void zero_grad(bool set_to_none = true) {
    if (reducer_.before_zero_grad()) Opt::zero_grad(set_to_none);
  }

  // Ends an open interval of the schedule, by a step on gradients that were kept or in flight. `max_norm`
  // clips them. Then all ranks have the same parameters. Collective. Call it at the end of training and
  // before a checkpoint; save() and load() throw InvalidArgument otherwise.
  void flush(std::optional<double> max_norm = std::nullopt) {
    if (!reducer_.flush(max_norm)) return;
    Opt::step(nullptr);
    zero_grad();
  }
  // Tells whether all ranks have the same parameters after this step. Call it before synchronize()
  // (GradientReducer).
  bool is_sync_step() const { return reducer_.is_sync_step(); }
  // Return the steps between two synchronisations, and the distance of the ranks in schedule adaptive.
  std::int64_t sync_interval() const { return reducer_.sync_interval(); }
  double drift() const { return reducer_.drift(); }

  // torch::save and torch::load call these. They include the state of the schedule.
  void save(torch::serialize::OutputArchive& archive) const override {
    Opt::save(archive);
    reducer_.save(archive);
  }
  void load(torch::serialize::InputArchive& archive) override {
    reducer_.load(archive);
    Opt::load(archive);
  }

  // Returns the total time in seconds for which this optimizer has waited for other ranks.
  double wait_seconds() const { return reducer_.wait_seconds(); }
  // Returns the part that reduces gradients.
  GradientReducer& gradient_reducer() override { return reducer_; }

 private:
  GradientReducer reducer_;
};

}  // namespace rueda
