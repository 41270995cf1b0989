// SPDX-License-Identifier: Apache-2.0
// A model that is divided among the ranks: parameters, gradients and optimizer state.
#pragma once

#include <c10/core/GradMode.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rueda/torch/reducer/gradient_norm.h"
#include "rueda/torch/sharding/divided_optimizer.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "rueda/torch/sharding/unit_runner.h"
#include "rueda/torch/state/saved_model.h"

namespace rueda {

// Options of ShardedModel. A plain value, equal on every rank.
struct ShardedModelOptions {
  // Submodules by the names of named_modules(), mostly layers. The parameters of each are gathered
  // together. Parameters in no unit, or in several (tied weights), form the root, which stays gathered for
  // a whole pass. If units are nested, the inner unit owns its parameters.
  std::vector<std::string> units;
  ReduceOp op = ReduceOp::average;              // average or sum
  int backward_passes_per_step = 1;             // mean of the gradients of n backward passes
  Compression compression = Compression::none;  // not topk
  // Inside one host all ranks share one copy of the parameters, and gather nothing. Applies to the host's
  // memory only, not to devices.
  bool share = true;
  // Of a ShardedModel that an elastic::State keeps in an elastic job: so many further ranks keep a copy of
  // each part, and step it. So as many ranks with neighbouring numbers may be lost at the same time. Each
  // copy takes the memory of a part's values and state, the time of its step, and a message with its
  // gradients in each step. 0: the loss of any rank ends the job.
  int part_copies = 1;
};

// Purpose: the part of ShardedModel that does not depend on the type of its optimizer. Used by the thread
// that trains.
class ShardedModelPart : public DividedOptimizer {
 public:
  // Tells whether all ranks of the host share one copy of the parameters, so that nothing is gathered.
  bool shares_parameters() const;
  // Returns the runner for modules whose layers are units.
  UnitRunner runner() const { return UnitRunner(units_); }

  // Runs a pass of the whole model: calls `forward` and returns its result. A loss inside `forward` may use
  // all parameters.
  template <class Forward>
  auto run(Forward&& forward) {
    return UnitCall(units_, nullptr).run(std::forward<Forward>(forward));
  }
  // Returns the 2-norm of all gradients, and scales them down to `most`. Call it after the backward passes.
  // Collective. On a device the host waits when it reads the norm.
  GradientNorm clip_grad_norm(double most);

 protected:
  // Collective. Copies all parameters of rank 0. Throws the exceptions of ShardedModel.
  ShardedModelPart(torch::nn::Module& module, const ShardedModelOptions& options, Runtime& runtime);
  ~ShardedModelPart() override;
  ShardedModelPart(const ShardedModelPart&) = delete;
  ShardedModelPart& operator=(const ShardedModelPart&) = delete;

  // Both return groups with this rank's pieces in place of the parameters: of these groups, or of one group
  // of all.
  Groups pieces(const Groups& groups) const;
  Groups pieces_of_all() const;
  // Steps this rank's pieces. Returns after all ranks have stepped.
  void step_pieces(const torch::optim::Optimizer& optimizer);
  void forget_gradients();

  // ShardedModel calls these for its functions of the same purpose.
  using Optimizer = torch::optim::Optimizer;
  void save_part(torch::serialize::OutputArchive& archive, const Optimizer& optimizer) const;
  void load_whole(torch::serialize::InputArchive& archive, Optimizer& optimizer, const MakeState& make_state);
  void load_files(const std::vector<std::string>& files, Optimizer& optimizer, const MakeState& make_state,
                  const LoadOptions& options);
  SavedModel gather_state(const Optimizer& optimizer, Rank root) const;
  void scatter_state(Optimizer& optimizer, const MakeState& make_state, const SavedModel& saved, Rank root);

 private:
  RecoverableParts& recoverable() const override;
  std::string kind() const override { return "a ShardedModel"; }
  void step_begins() override;
  void drop_gradients() override;
  void begin_generation(Runtime& runtime) override;

  const std::shared_ptr<UnitScheduler> units_;  // of the module
};

// Purpose: a module and its optimizer `Opt` (FusedAdamW, torch::optim::SGD, ...), divided among n ranks.
// Each rank keeps an n-th of parameters, gradients and state. It trains as DistributedOptimizer<Opt> does.
// All parameters lie on one device, or in the host's memory. Units are gathered there while a pass uses
// them. Outside of its unit, reading a parameter throws, unless parameters are shared.
//
// backward() returns after the reductions. The gradients are in this rank's part, not in .grad of the
// module's parameters. param_groups() holds this rank's pieces, so schedulers work. The module works only
// while its ShardedModel lives, unless parameters are shared. Used by one thread. All ranks construct it in
// one order. Not for use with join().
//
// In an elastic job it may be made before elastic::run(), which divides it among the ranks; an elastic::State
// keeps it. Until then the process has the whole model, and may only run passes without gradients, and load.
// There param_groups() also holds copies of pieces of other ranks. Their gradients are there only inside of
// step(): change those of this rank's pieces in place, and before step().
template <class Opt>
class ShardedModel : public ShardedModelPart, public Opt {
  static_assert(is_elementwise<Opt>,
                "ShardedModel is for optimizers that step each element by itself; if this one does, say so: "
                "template <> inline constexpr bool rueda::is_elementwise<Opt> = true;");

 public:
  // Computes the loss and its gradients again.
  using LossClosure = torch::optim::Optimizer::LossClosure;
  // Groups of parameters with their options.
  using Groups = ShardedModelPart::Groups;

  // Takes groups of the module's parameters. Parameters in no group are not stepped. `options` are those of
  // Opt.
  template <class Options>
  ShardedModel(torch::nn::Module& module, const ShardedModelOptions& sharded, const Groups& groups,
               Options options, Runtime& runtime = default_runtime())
      : ShardedModelPart(module, sharded, runtime),
        Opt(pieces(groups), options),
        make_state_(state_maker<Opt>(options)) {}
  // Takes all parameters of the module.
  template <class Options>
  ShardedModel(torch::nn::Module& module, const ShardedModelOptions& sharded, Options options,
               Runtime& runtime = default_runtime())
      : ShardedModelPart(module, sharded, runtime),
        Opt(pieces_of_all(), options),
        make_state_(state_maker<Opt>(options)) {}

  // Runs `closure` once with gradients enabled, then steps this rank's part. Returns after all ranks have
  // stepped.
  at::Tensor step(LossClosure closure = nullptr) override {
    at::Tensor loss;
    if (closure) {
      at::AutoGradMode gradients_on(true);
      loss = closure();
    }
    step_pieces(*this);
    return loss;
  }

  // Saves this rank's part: parameters, state of the optimizer, and options of the groups.
  void save(torch::serialize::OutputArchive& archive) const override { save_part(archive, *this); }
  // Loads an archive of the whole model, from state_dict() or from a single rank. Collective.
  void load(torch::serialize::InputArchive& archive) override { load_whole(archive, *this, make_state_); }
  // Loads the files that save_part has written on all ranks of a job, for any number of ranks then and now.
  // Every rank reads all files, one at a time. Collective.
  void load_parts(const std::vector<std::string>& files, const LoadOptions& options = {}) {
    load_files(files, *this, make_state_, options);
  }
  // Returns the whole model by the names of the module on `root`, and nothing elsewhere. Collective.
  SavedModel state_dict(Rank root = 0) const { return gather_state(*this, root); }
  // Loads `saved` of rank `root` on all ranks. Collective. In an elastic job, before elastic::run(), each
  // process loads its own `saved`, without the others. So do load() and load_parts().
  void load_state_dict(const SavedModel& saved, Rank root = 0) {
    scatter_state(*this, make_state_, saved, root);
  }

  // Clears the gradients of this rank's part. Hides Optimizer::zero_grad, which is not virtual.
  void zero_grad() { forget_gradients(); }

 private:
  void step_leaves() override { Opt::step(nullptr); }
  const MakeState& make_state() const override { return make_state_; }

  const MakeState make_state_;
};

}  // namespace rueda
