// SPDX-License-Identifier: Apache-2.0
// An optimizer that is divided among the ranks: its state and its work.
#pragma once

#include <c10/core/GradMode.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rueda/torch/reducer/distributed_optimizer.h"
#include "rueda/torch/sharding/divided_optimizer.h"
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

// Whether the step of one element needs no other element, so that ranks may step parts. Specialise it as
// true for such an optimizer of your own.
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

class RecoverableShards;

// Purpose: the part of ShardedOptimizer that does not depend on the type of its optimizer. It holds the
// parts of the parameters and their gradients. Used by the thread that steps.
class Sharded : public DividedOptimizer {
 public:
  ~Sharded() override;
  Sharded(const Sharded&) = delete;
  Sharded& operator=(const Sharded&) = delete;

  // Tells whether all ranks of the host share one copy of the parameters.
  bool shares_parameters() const;

 protected:
  // Collective. Copies all parameters of rank 0. Throws the exceptions of ShardedOptimizer.
  Sharded(const Groups& groups, const DistributedOptions& distributed, Runtime& runtime);

  // Return the groups with this rank's parts in place of the parameters, and all parameters.
  const Groups& parts() const;
  const std::vector<at::Tensor>& parameters() const;

  // Returns the part that reduces whole parameters. Throws InvalidArgument if elastic::run() has still to
  // divide the optimizer.
  GradientReducer& reducer() const;
  // zero_grad() calls it. Returns false if gradients must stay.
  bool before_zero_grad() const;

  // state_dict() and load_state_dict() call these.
  SavedModel gather_state(const torch::optim::Optimizer& optimizer, Rank root) const;
  void load_state(torch::optim::Optimizer& optimizer, const MakeState& make_state,
                  const SavedModel& saved) const;
  // save() and load() call these for the description of the part. check_part throws InvalidArgument for
  // another part.
  void save_part(torch::serialize::OutputArchive& archive) const;
  void check_part(torch::serialize::InputArchive& archive) const;

 private:
  RecoverableParts& recoverable() const override;
  std::string kind() const override { return "a ShardedOptimizer"; }
  bool changes_in_steps_only() const override;
  void drop_gradients() override;
  void begin_generation(Runtime& runtime) override;
  void make_reducer(Runtime& runtime);

  const DistributedOptions distributed_;
  const std::unique_ptr<RecoverableShards> shards_;  // parts that this rank steps
  std::unique_ptr<GradientReducer> reducer_;         // null: not divided yet
};

// Purpose: an `Opt` (FusedAdamW, torch::optim::SGD, ...) that is divided among n ranks. Each rank steps an
// n-th of the parameters, with the bits of DistributedOptimizer<Opt>. So the state and the time of a step
// are divided by n. Inside a host all ranks share one copy of the parameters. A rank that is killed inside
// step() leaves that copy torn: continue from a checkpoint. On a device each rank has its own copy, and the
// parts are gathered.
//
// param_groups() holds this rank's parts, so schedulers work. Every rank calls torch::save and torch::load
// for its part. Gradients are reduced whole, as by DistributedOptimizer: clip them between synchronize()
// and step(). Used by one thread. All ranks construct it in one order. Not for use with join().
//
// Read parameters between steps, and let only step() write them. A program that writes them itself (it
// loads a checkpoint) writes the same values on every rank. Or one rank writes them, and all call a barrier
// afterwards.
//
// In an elastic job it may be made before elastic::run(), and an elastic::State keeps it. There `part_copies`
// further ranks keep and step a copy of each part, so a lost rank takes nothing with it. The ranks step on
// the same gradients.
template <class Opt>
class ShardedOptimizer : public Sharded, public Opt {
  static_assert(
      is_elementwise<Opt>,
      "ShardedOptimizer is for optimizers that step each element by itself; if this one does, say so: "
      "template <> inline constexpr bool rueda::is_elementwise<Opt> = true;");

 public:
  // Computes the loss and its gradients again.
  using LossClosure = torch::optim::Optimizer::LossClosure;

  // `options` are those of Opt. Collective. Copies all parameters of rank 0. Throws Mismatch if the
  // parameters of ranks differ. Throws InvalidArgument, with the same text on all ranks, for a parameter
  // that is a view, is given twice or is on another device. Also throws the exceptions of GradientReducer.
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

  // The same as in DistributedOptimizer.
  bool synchronize() { return reducer().synchronize(); }
  [[nodiscard]] auto skip_synchronize() { return reducer().skip_synchronize(); }
  // Both call synchronize(), then return the 2-norm of all gradients. The norm is 0 if synchronize()
  // returns false. clip_grad_norm_ scales the gradients down to `max_norm` unless the norm is not finite.
  // It returns the norm before. On a device the host waits when it reads the norm.
  GradientNorm grad_norm() { return reducer().grad_norm(); }
  GradientNorm clip_grad_norm_(double max_norm) { return reducer().clip_grad_norm_(max_norm); }
  bool is_sync_step() const { return reducer().is_sync_step(); }
  std::int64_t sync_interval() const { return reducer().sync_interval(); }
  double drift() const { return reducer().drift(); }
  double wait_seconds() const { return reducer().wait_seconds(); }

  // Runs `closure` once with gradients enabled. Then calls synchronize() unless done, and steps this rank's
  // part. Returns after all parts have been stepped.
  at::Tensor step(LossClosure closure = nullptr) override {
    at::Tensor loss;
    if (closure) {
      at::AutoGradMode gradients_on(true);
      loss = closure();
    }
    if (reducer().before_step()) step_parts(*this);
    reducer().after_step();
    return loss;
  }

  // The same as in DistributedOptimizer.
  void flush(std::optional<double> max_norm = std::nullopt) {
    if (!reducer().flush(max_norm)) return;
    step_parts(*this);
    zero_grad();
  }

  // Clears the gradients of the model's parameters. Hides Optimizer::zero_grad, which is not virtual.
  void zero_grad(bool set_to_none = true) {
    if (!before_zero_grad()) return;
    for (at::Tensor parameter : parameters()) {
      if (!parameter.grad().defined()) continue;
      set_to_none ? parameter.mutable_grad().reset()
                  : static_cast<void>(parameter.mutable_grad().detach_().zero_());
    }
  }

  // Returns the state of all parts and the options of groups on `root`, and nothing elsewhere. It names
  // parameters by their index in the optimizer, "parameter.3", without their values. Collective. It sends
  // one parameter at a time.
  SavedModel state_dict(Rank root = 0) const { return gather_state(*this, root); }
  // Loads this rank's part. Every rank passes the same `saved`, from a job of any number of ranks.
  void load_state_dict(const SavedModel& saved) { load_state(*this, make_state_, saved); }

  // Save and load this rank's part. load() throws InvalidArgument for a part of another division.
  void save(torch::serialize::OutputArchive& archive) const override {
    Opt::save(archive);
    save_part(archive);
    reducer().save(archive);
  }
  void load(torch::serialize::InputArchive& archive) override {
    check_part(archive);
    reducer().load(archive);
    Opt::load(archive);
  }

 private:
  void step_leaves() override { Opt::step(nullptr); }
  const MakeState& make_state() const override { return make_state_; }

  const MakeState make_state_;
};

}  // namespace rueda
