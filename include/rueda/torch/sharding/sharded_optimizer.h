// SPDX-License-Identifier: Apache-2.0
// An optimizer of which each rank has a part: its state, and its work.
#pragma once

#include <c10/core/GradMode.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rueda/torch/reducer/distributed_optimizer.h"
#include "rueda/torch/state/per_rank_state.h"
#include "rueda/torch/state/saved_model.h"

namespace torch::optim {
class Adagrad;
class Adam;
class AdamW;
class RMSprop;
class SGD;
}  // namespace torch::optim

namespace rueda {

class FusedAdamW;
class RAdam;

// Whether an optimizer's step of one element needs no other element, so that parts may be stepped apart. True
// for an optimizer of your own: specialise it.
template <class Opt>
inline constexpr bool is_elementwise = false;
template <>
inline constexpr bool is_elementwise<torch::optim::Adagrad> = true;
template <>
inline constexpr bool is_elementwise<torch::optim::Adam> = true;
template <>
inline constexpr bool is_elementwise<torch::optim::AdamW> = true;
template <>
inline constexpr bool is_elementwise<torch::optim::RMSprop> = true;
template <>
inline constexpr bool is_elementwise<torch::optim::SGD> = true;
template <>
inline constexpr bool is_elementwise<FusedAdamW> = true;
template <>
inline constexpr bool is_elementwise<RAdam> = true;

class ParameterShards;

// Purpose: all of a ShardedOptimizer but the type of its optimizer: the parts of the parameters, and their
// gradients. Used by the thread that steps.
class Sharded : public PerRankState {
 public:
  // Parameters with options of their own, as torch's optimizers take them.
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;

  ~Sharded() override;
  Sharded(const Sharded&) = delete;
  Sharded& operator=(const Sharded&) = delete;

  // Whether all ranks have one copy of the parameters (inside a host), or each its own.
  bool shares_parameters() const;

 protected:
  // Collective. All parameters get the values of rank 0. Throws as ShardedOptimizer.
  Sharded(const Groups& groups, const DistributedOptions& distributed, Runtime& runtime);

  // The groups as they were given, with this rank's parts in place of the parameters; all parameters.
  const Groups& parts() const;
  const std::vector<at::Tensor>& parameters() const;

  // When gradients are reduced: runs `step`, which steps this rank's parts; returns when all ranks have
  // stepped. The others wait for a rank that fails, and hear of it.
  void step_part(const Groups& stepped, const std::function<void()>& step);

  // What state_dict() and load_state_dict() do.
  SavedModel gather_state(const torch::optim::Optimizer& optimizer, Rank root) const;
  void load_state(torch::optim::Optimizer& optimizer, const MakeState& make_state,
                  const SavedModel& saved) const;
  // What the archive of a part has in addition, and whether one fits.
  void save_part(torch::serialize::OutputArchive& archive) const;
  void check_part(torch::serialize::InputArchive& archive) const;

 private:
  const std::unique_ptr<ParameterShards> shards_;  // what this rank steps

 protected:
  GradientReducer reducer_;  // of the whole parameters
};

// Purpose: `Opt` (FusedAdamW, torch::optim::SGD, ...) of which each of n ranks steps an n-th, with the bits
// of DistributedOptimizer<Opt>: state and time of a step are divided by n. Inside a host the parameters
// become one copy for all ranks; a rank that is killed inside
// step() leaves it torn: go on from what was saved. On a device each rank has its own, and the parts are
// gathered. Its param_groups() hold this rank's parts, so schedulers
// work; torch::save and torch::load are for the part too, by every rank. Gradients are reduced as by a
// DistributedOptimizer, whole: clip between synchronize() and step(). Used by one thread; made by all ranks
// in one order. Not for use with join().
//
// Parameters are read between steps and written inside a step only. A program that writes them otherwise (it
// loads a checkpoint) writes the same values on every rank, or on one with a barrier after it.
template <class Opt>
class ShardedOptimizer : public Sharded, public Opt {
  static_assert(
      is_elementwise<Opt>,
      "ShardedOptimizer is for optimizers that step each element by itself; if this one does, say so: "
      "template <> inline constexpr bool rueda::is_elementwise<Opt> = true;");

 public:
  // Computes the loss again, and its gradients.
  using LossClosure = torch::optim::Optimizer::LossClosure;

  // `options` are Opt's own. Collective: all parameters get the values of rank 0. Throws Mismatch when ranks
  // differ in the parameters. Throws InvalidArgument for a parameter that is part of another tensor, given
  // twice or on another device, in the same words on all ranks; and as GradientReducer.
  template <class Options>
  ShardedOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups, Options options,
                   const DistributedOptions& distributed = {}, Runtime& runtime = default_runtime())
      : Sharded(groups, distributed, runtime),
        Opt(parts(), options),
        make_state_(state_maker<Opt>(options)) {}
  template <class Options>
  ShardedOptimizer(std::vector<at::Tensor> parameters, Options options,
                   const DistributedOptions& distributed = {}, Runtime& runtime = default_runtime())
      : ShardedOptimizer(std::vector{torch::optim::OptimizerParamGroup(std::move(parameters))},
                         std::move(options), distributed, runtime) {}

  // As of DistributedOptimizer.
  bool synchronize() { return reducer_.synchronize(); }
  [[nodiscard]] auto skip_synchronize() { return reducer_.skip_synchronize(); }
  // synchronize(), then the 2-norm of all gradients; clip_grad_norm_ scales them down to `max_norm`, unless
  // it is not finite, and returns what it was. 0 where synchronize() is false. On a device the host waits
  // where it reads the norm.
  GradientNorm grad_norm() { return reducer_.grad_norm(); }
  GradientNorm clip_grad_norm_(double max_norm) { return reducer_.clip_grad_norm_(max_norm); }
  bool meets() const { return reducer_.meets(); }
  std::int64_t sync_interval() const { return reducer_.sync_interval(); }
  double drift() const { return reducer_.drift(); }
  double wait_seconds() const { return reducer_.wait_seconds(); }

  // Runs `closure` once, with gradients on; then synchronize() unless done; then steps this rank's part. When
  // it returns all parts have been stepped.
  at::Tensor step(LossClosure closure = nullptr) override {
    at::Tensor loss;
    if (closure) {
      at::AutoGradMode gradients_on(true);
      loss = closure();
    }
    if (reducer_.before_step()) step_part();
    return loss;
  }

  // As of DistributedOptimizer.
  void flush(std::optional<double> max_norm = std::nullopt) {
    if (!reducer_.flush(max_norm)) return;
    step_part();
    zero_grad();
  }

  // Of the model's parameters; hides Optimizer::zero_grad, which is not virtual.
  void zero_grad(bool set_to_none = true) {
    if (!reducer_.before_zero_grad()) return;
    for (at::Tensor parameter : parameters()) {
      if (!parameter.grad().defined()) continue;
      set_to_none ? parameter.mutable_grad().reset()
                  : static_cast<void>(parameter.mutable_grad().detach_().zero_());
    }
  }

  // The state of all parts and the options of groups, on `root`; nothing elsewhere. Parameters are named by
  // their place among those that the optimizer was given, "parameter.3", and their values left out: these are
  // the module's. Collective; one parameter at a time.
  SavedModel state_dict(Rank root = 0) const { return gather_state(*this, root); }
  // Takes this rank's part of it. Every rank gives the same, whatever number of ranks has made it.
  void load_state_dict(const SavedModel& saved) { load_state(*this, make_state_, saved); }

  // This rank's part; load() throws InvalidArgument for the part of another cut.
  void save(torch::serialize::OutputArchive& archive) const override {
    Opt::save(archive);
    save_part(archive);
    reducer_.save(archive);
  }
  void load(torch::serialize::InputArchive& archive) override {
    check_part(archive);
    reducer_.load(archive);
    Opt::load(archive);
  }

 private:
  void step_part() {
    Sharded::step_part(this->param_groups(), [this] { Opt::step(nullptr); });
  }

  const MakeState make_state_;
};

}  // namespace rueda
