// SPDX-License-Identifier: Apache-2.0
// A model of which each rank has a part: parameters, gradients and optimizer state.
#pragma once

#include <c10/core/GradMode.h>
#include <torch/serialize/archive.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/torch/sharding/sharded_optimizer.h"
#include "frameworks/torch/sharding/state_dict.h"
#include "frameworks/torch/sharding/unit_scheduler.h"

namespace rueda {

// Purpose: what a ShardedModel has before its base class, and what others know it by.
class ShardedModelPart {
 public:
  // Whether all ranks have one copy of the parameters (inside a host), so that nothing is gathered.
  bool shares_parameters() const { return units_->shared(); }
  // For the modules whose layers are units.
  UnitRunner runner() const { return UnitRunner(units_); }

  // A pass of the whole model: `forward` calls it, and its result is returned. A loss that it computes may
  // use all parameters.
  template <class Forward>
  auto run(Forward&& forward) {
    return units_->run_model(std::forward<Forward>(forward));
  }
  // After the backward passes: the 2-norm of all gradients, which are scaled to make it `most` if it is more.
  // Collective. On a device the host waits where it reads the norm.
  GradientNorm clip_grad_norm(double most) { return units_->clip(most); }

 protected:
  // Collective, as UnitScheduler.
  ShardedModelPart(torch::nn::Module& module, const ShardedModelOptions& options, Runtime& runtime)
      : units_(std::make_shared<UnitScheduler>(module, options, runtime)) {}

  const std::shared_ptr<UnitScheduler> units_;  // of the module
};

// Purpose: a module and its optimizer `Opt` (FusedAdamW, torch::optim::SGD, ...), of which each of n ranks
// keeps an n-th: parameters, gradients and state; trains as with DistributedOptimizer<Opt>. Parameters are
// gathered unit by unit for as long as they are used (unit_scheduler.h), where they are, all on one device or
// in the host's memory; elsewhere reading them throws, unless they are shared. backward() ends when gradients
// are reduced; they are in this rank's part then, not in .grad of the module's parameters. Its param_groups()
// hold this rank's pieces, so schedulers work. The module outlives no step: it goes on only with its
// ShardedModel, or where parameters are shared. Used by one thread; made by all ranks in one order. Not for
// use with join().
template <class Opt>
class ShardedModel : public ShardedModelPart, public Opt {
  static_assert(is_elementwise<Opt>,
                "ShardedModel is for optimizers that step each element by itself; if this one does, say so: "
                "template <> inline constexpr bool rueda::is_elementwise<Opt> = true;");

 public:
  // Computes the loss again, and its gradients.
  using LossClosure = torch::optim::Optimizer::LossClosure;
  // Parameters with options of their own.
  using Groups = UnitScheduler::Groups;

  // Groups of the module's parameters; those in no group are not stepped.
  template <class Options>
  ShardedModel(torch::nn::Module& module, const ShardedModelOptions& sharded, const Groups& groups,
               Options options, Runtime& runtime = default_runtime())
      : ShardedModelPart(module, sharded, runtime),
        Opt(units_->groups(groups), options),
        make_state_(state_maker<Opt>(options)) {}
  // All of them.
  template <class Options>
  ShardedModel(torch::nn::Module& module, const ShardedModelOptions& sharded, Options options,
               Runtime& runtime = default_runtime())
      : ShardedModelPart(module, sharded, runtime),
        Opt(units_->groups({torch::optim::OptimizerParamGroup(units_->parameters())}), options),
        make_state_(state_maker<Opt>(options)) {}

  // Runs `closure` once, with gradients on; then steps this rank's part. When it returns all have.
  at::Tensor step(LossClosure closure = nullptr) override {
    at::Tensor loss;
    if (closure) {
      at::AutoGradMode gradients_on(true);
      loss = closure();
    }
    units_->begin_step(this->param_groups());
    std::exception_ptr failure;
    try {
      Opt::step(nullptr);
    } catch (...) {
      failure = std::current_exception();
    }
    units_->end_step(!failure);  // the others wait for it
    if (failure) std::rethrow_exception(failure);
    return loss;
  }

  // This rank's part: parameters, what the optimizer keeps for them, and the options of groups.
  void save(torch::serialize::OutputArchive& archive) const override {
    write(archive, saved_part(*units_, *this));
  }
  // An archive that has all of it: of state_dict(), or saved by a single rank. Collective.
  void load(torch::serialize::InputArchive& archive) override {
    bool given = false;
    load_saved(*units_, *this, make_state_, [&](SavedModel& saved) {
      if (std::exchange(given, true)) return false;
      saved = read_saved_model(archive);
      return true;
    });
  }
  // The files that torch::save has written on each rank of a job, of any number of ranks; every rank reads
  // all of them, one at a time. Collective.
  void load_parts(const std::vector<std::string>& files) {
    auto next = files.begin();
    load_saved(*units_, *this, make_state_, [&](SavedModel& saved) {
      if (next == files.end()) return false;
      torch::serialize::InputArchive archive;
      archive.load_from(*next++, at::kCPU);
      saved = read_saved_model(archive);
      return true;
    });
  }
  // All of it, by the names of the module, on `root`; nothing elsewhere. Collective.
  SavedModel state_dict(Rank root = 0) const { return gather_saved(*units_, *this, root); }
  // Takes what `root` gives. Collective.
  void load_state_dict(const SavedModel& saved, Rank root = 0) {
    scatter_saved(*units_, *this, make_state_, saved, root);
  }

  // Of this rank's part; hides Optimizer::zero_grad, which is not virtual.
  void zero_grad() { units_->forget_gradients(); }

 private:
  const MakeState make_state_;
};

}  // namespace rueda
