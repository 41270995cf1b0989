// SPDX-License-Identifier: Apache-2.0
// Any LibTorch optimizer, made to step on gradients that are reduced over all ranks.
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

// Purpose: `Opt` (torch::optim::SGD, AdamW, ...) whose step() first waits for the gradients of all ranks. It
// is an Opt: schedulers, torch::save and torch::load, and code that takes an Optimizer& go on working. Used
// by one thread; made by all ranks in one order (GradientReducer).
template <class Opt>
class DistributedOptimizer : public Opt {
  static_assert(
      !std::is_same_v<Opt, torch::optim::LBFGS>,
      "LBFGS evaluates its closure several times in one step, which ranks would do a different number of "
      "times. Use GradientReducer inside a closure instead.");

 public:
  // Computes the loss again, and its gradients.
  using LossClosure = torch::optim::Optimizer::LossClosure;

  // `options` are Opt's own, such as torch::optim::AdamWOptions. `scope`: all ranks, or a process set, whose
  // members make the optimizer. Throws as GradientReducer.
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

  // Waits for all reductions of this step: afterwards .grad holds the reduced gradients (clip here); step()
  // knows. False: the schedule has none for this step, nothing is to be clipped.
  bool synchronize() { return reducer_.synchronize(); }
  // While the result lives, step() does not synchronize. With schedule every_step only.
  [[nodiscard]] auto skip_synchronize() { return reducer_.skip_synchronize(); }
  // While the result lives, backward passes only add to .grad: none of them is one of a step's.
  [[nodiscard]] auto no_sync() { return reducer_.no_sync(); }
  // synchronize(), then the 2-norm of all gradients; clip_grad_norm_ scales them down to `max_norm`, unless
  // it is not finite, and returns what it was. 0 where synchronize() is false.
  GradientNorm grad_norm() { return reducer_.grad_norm(); }
  GradientNorm clip_grad_norm_(double max_norm) { return reducer_.clip_grad_norm_(max_norm); }

  // Runs `closure` once, with gradients on; then synchronize() unless done; then Opt's step, where the
  // schedule has one now.
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

  // Hides Optimizer::zero_grad, which is not virtual, to refuse while gradients are being reduced, and to
  // leave them where the schedule adds them up.
  void zero_grad(bool set_to_none = true) {
    if (reducer_.before_zero_grad()) Opt::zero_grad(set_to_none);
  }

  // Ends what the schedule has begun, by a step where gradients were kept or on their way (clipped to
  // `max_norm`), and zero_grad(); afterwards all ranks have the same parameters. Collective; for the end, and
  // before a checkpoint: save() and load() ask for it.
  void flush(std::optional<double> max_norm = std::nullopt) {
    if (!reducer_.flush(max_norm)) return;
    Opt::step(nullptr);
    zero_grad();
  }
  // Before synchronize(): whether all ranks have the same parameters after this step (GradientReducer).
  bool meets() const { return reducer_.meets(); }
  // Steps from one synchronisation to the next, and, of schedule adaptive, the distance that decides it.
  std::int64_t sync_interval() const { return reducer_.sync_interval(); }
  double drift() const { return reducer_.drift(); }

  // What torch::save and torch::load call, with where the schedule stands.
  void save(torch::serialize::OutputArchive& archive) const override {
    Opt::save(archive);
    reducer_.save(archive);
  }
  void load(torch::serialize::InputArchive& archive) override {
    reducer_.load(archive);
    Opt::load(archive);
  }

  // Time that this optimizer's caller has spent waiting for other ranks, in seconds, total.
  double wait_seconds() const { return reducer_.wait_seconds(); }

 private:
  GradientReducer reducer_;
};

}  // namespace rueda
