// SPDX-License-Identifier: Apache-2.0
// A model of which each rank has a part: parameters, gradients and optimizer state.
#pragma once

#include <c10/core/GradMode.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rueda/torch/reducer/gradient_norm.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "rueda/torch/sharding/unit_runner.h"
#include "rueda/torch/state/saved_model.h"

namespace rueda {

// A plain value, equal on every rank.
struct ShardedModelOptions {
  // Submodules, by the names of named_modules(), whose parameters are gathered together: mostly layers. All
  // that is in none of them, or in several (tied weights), is the root, which is there for a whole pass. Of
  // units inside one another the inner one has what it contains.
  std::vector<std::string> units;
  ReduceOp op = ReduceOp::average;   // or sum
  int backward_passes_per_step = 1;  // gradients add up over n backward passes, and are averaged over them
  Compression compression = Compression::none;  // but for topk, which would change nothing here
  // Inside one host all ranks have one copy of the parameters, and nothing is gathered. Of the host's memory
  // only: on a device it means nothing.
  bool share = true;
};

// Purpose: all of a ShardedModel but the type of its optimizer. Used by the thread that trains.
class ShardedModelPart {
 public:
  // Parameters with options of their own, as torch's optimizers take them.
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;

  // Whether all ranks have one copy of the parameters (inside a host), so that nothing is gathered.
  bool shares_parameters() const;
  // For the modules whose layers are units.
  UnitRunner runner() const { return UnitRunner(units_); }

  // A pass of the whole model: `forward` calls it, and its result is returned. A loss that it computes may
  // use all parameters.
  template <class Forward>
  auto run(Forward&& forward) {
    return UnitCall(units_, nullptr).run(std::forward<Forward>(forward));
  }
  // After the backward passes: the 2-norm of all gradients, which are scaled to make it `most` if it is more.
  // Collective. On a device the host waits where it reads the norm.
  GradientNorm clip_grad_norm(double most);

 protected:
  // Collective. All parameters get the values of rank 0. Throws as ShardedModel.
  ShardedModelPart(torch::nn::Module& module, const ShardedModelOptions& options, Runtime& runtime);
  ~ShardedModelPart();
  ShardedModelPart(const ShardedModelPart&) = delete;
  ShardedModelPart& operator=(const ShardedModelPart&) = delete;

  // These groups of the module's parameters, or one group of all, with this rank's pieces in their place.
  Groups pieces(const Groups& groups) const;
  Groups pieces_of_all() const;
  // Runs `step`, which steps this rank's pieces; returns when all ranks have stepped.
  void step_part(const Groups& stepped, const std::function<void()>& step);
  void forget_gradients();

  // What a ShardedModel's functions of these names do for its optimizer.
  using Optimizer = torch::optim::Optimizer;
  void save_part(torch::serialize::OutputArchive& archive, const Optimizer& optimizer) const;
  void load_whole(torch::serialize::InputArchive& archive, Optimizer& optimizer, const MakeState& make_state);
  void load_files(const std::vector<std::string>& files, Optimizer& optimizer, const MakeState& make_state);
  SavedModel gather_state(const Optimizer& optimizer, Rank root) const;
  void scatter_state(Optimizer& optimizer, const MakeState& make_state, const SavedModel& saved, Rank root);

 private:
  const std::shared_ptr<UnitScheduler> units_;  // of the module
};

// Purpose: a module and its optimizer `Opt` (FusedAdamW, torch::optim::SGD, ...), of which each of n ranks
// keeps an n-th: parameters, gradients and state; trains as with DistributedOptimizer<Opt>. Parameters are
// gathered unit by unit for as long as they are used, where they are, all on one device or
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
  using Groups = ShardedModelPart::Groups;

  // Groups of the module's parameters; those in no group are not stepped.
  template <class Options>
  ShardedModel(torch::nn::Module& module, const ShardedModelOptions& sharded, const Groups& groups,
               Options options, Runtime& runtime = default_runtime())
      : ShardedModelPart(module, sharded, runtime),
        Opt(pieces(groups), options),
        make_state_(state_maker<Opt>(options)) {}
  // All of them.
  template <class Options>
  ShardedModel(torch::nn::Module& module, const ShardedModelOptions& sharded, Options options,
               Runtime& runtime = default_runtime())
      : ShardedModelPart(module, sharded, runtime),
        Opt(pieces_of_all(), options),
        make_state_(state_maker<Opt>(options)) {}

  // Runs `closure` once, with gradients on; then steps this rank's part. When it returns all have.
  at::Tensor step(LossClosure closure = nullptr) override {
    at::Tensor loss;
    if (closure) {
      at::AutoGradMode gradients_on(true);
      loss = closure();
    }
    step_part(this->param_groups(), [this] { Opt::step(nullptr); });
    return loss;
  }

  // This rank's part: parameters, what the optimizer keeps for them, and the options of groups.
  void save(torch::serialize::OutputArchive& archive) const override { save_part(archive, *this); }
  // An archive that has all of it: of state_dict(), or saved by a single rank. Collective.
  void load(torch::serialize::InputArchive& archive) override { load_whole(archive, *this, make_state_); }
  // The files that torch::save has written on each rank of a job, of any number of ranks; every rank reads
  // all of them, one at a time. Collective.
  void load_parts(const std::vector<std::string>& files) { load_files(files, *this, make_state_); }
  // All of it, by the names of the module, on `root`; nothing elsewhere. Collective.
  SavedModel state_dict(Rank root = 0) const { return gather_state(*this, root); }
  // Takes what `root` gives. Collective.
  void load_state_dict(const SavedModel& saved, Rank root = 0) {
    scatter_state(*this, make_state_, saved, root);
  }

  // Of this rank's part; hides Optimizer::zero_grad, which is not virtual.
  void zero_grad() { forget_gradients(); }

 private:
  const MakeState make_state_;
};

}  // namespace rueda
