// SPDX-License-Identifier: Apache-2.0
// Reduced gradients for any optimizer, and for what comes between reduction and step.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/torch/reducer/distributed_options.h"
#include "rueda/torch/reducer/gradient_norm.h"

namespace torch::serialize {
class OutputArchive;
class InputArchive;
}  // namespace torch::serialize

namespace rueda {

class GradientSync;
class ParameterAverage;

// Purpose: averages the gradients of a list of parameters over all ranks while backward passes run. Owned by
// the thread that steps; lives no longer than its Runtime is needed, and dies outside of backward passes.
// DistributedOptimizer has one; with an optimizer of another kind:
//   rueda::GradientReducer reducer(parameters);
//   loss.backward();
//   if (reducer.synchronize()) clip(parameters);
//   if (reducer.before_step()) optimizer.step();
//   reducer.after_step();
//   if (reducer.before_zero_grad()) optimizer.zero_grad();
class GradientReducer {
 public:
  // Collective: every rank of the scope makes it with the same parameters and options, and throws Mismatch if
  // they differ. Throws InvalidArgument for options that cannot mean anything and parameters that Rueda
  // cannot move.
  explicit GradientReducer(const std::vector<at::Tensor>& parameters, const DistributedOptions& options = {},
                           const Scope& scope = {});
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Waits until the gradients of this step are reduced; afterwards .grad holds the same values on every rank.
  // Called by every rank once a step. A second call does nothing until a backward pass has brought new
  // gradients. False: the schedule has no gradients for this step (they add up, or are on their way), so
  // leave .grad alone. Where it averages parameters instead, .grad is this rank's.
  bool synchronize();

  // synchronize(), then the 2-norm of all gradients as one vector, in float32, and not finite if one of them
  // is not (a mixed-precision scaler's question). 0 where synchronize() is false. With `measure_norm` it
  // needs no pass over them, and is of the gradients as they were reduced: what the program has done to them
  // since (but for clipping) does not count. Where a schedule averages parameters it is this rank's. Of
  // gradients on a device it is measured there, and the host waits only where it is read as a number.
  GradientNorm grad_norm();
  // The same; then scales the gradients so that their norm is at most `max_norm`, unless it is not finite.
  // Returns the norm before.
  GradientNorm clip_grad_norm_(double max_norm);

  // Purpose: while it lives, before_step() does not synchronize. Lives no longer than its GradientReducer.
  class [[nodiscard]] Skip {
   public:
    // What skip_synchronize() makes.
    explicit Skip(GradientReducer& reducer) : reducer_(reducer) { ++reducer_.skips_; }
    ~Skip() { --reducer_.skips_; }
    Skip(const Skip&) = delete;
    Skip& operator=(const Skip&) = delete;

   private:
    GradientReducer& reducer_;
  };
  // For steps on local gradients (overlap = false), or on gradients that the caller has reduced or changed
  // itself. .grad holds those of this step. With schedule every_step only.
  Skip skip_synchronize();
  // What skip_synchronize() does first, for who makes a Skip itself.
  void check_captured() const;
  void check_skip();

  // Purpose: while it lives, backward passes only add to .grad: they are none of a step's passes, and what
  // they leave is reduced with the next pass that is. Lives no longer than its GradientReducer.
  class [[nodiscard]] NoSync {
   public:
    // What no_sync() makes.
    explicit NoSync(GradientReducer& reducer);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    GradientReducer& reducer_;
  };
  // As no_sync() of Python's DistributedDataParallel.
  NoSync no_sync() { return NoSync(*this); }

  // What a model's forward pass may do first, where no step() or zero_grad() tells this reducer: parameters
  // that have changed their type, or come to require a gradient, are heard of again.
  void refresh_hooks();

  // What an optimizer's step() does first: synchronize() unless done or skipped; later gradients belong to a
  // new step. False: no step now (see synchronize).
  bool before_step();
  // What step() does last, stepped or not: averages parameters where the schedule says so.
  void after_step();
  // What zero_grad() does first: throws InvalidArgument while gradients are being reduced; begins a new step.
  // False: the schedule adds gradients up, so they must stay.
  bool before_zero_grad();

  // Ends what a schedule has begun: ranks that went apart average their parameters; true: gradients that were
  // kept or on their way are in .grad now, with a norm of at most `max_norm`: step on them, then zero_grad().
  // Collective; afterwards all ranks have the same parameters. For the end, and before a checkpoint.
  bool flush(std::optional<double> max_norm = std::nullopt);
  // Throws InvalidArgument when flush() has something to do; `action`: what it must come before.
  void check_flushed(const char* action) const;

  // Before synchronize(): whether this step ends with the same parameters on all ranks, and nothing kept
  // back, so that what needs that (a checkpoint, an evaluation) may follow it; the same on all ranks. One
  // step late they are the same after each step, though gradients are on their way: flush() for a checkpoint.
  bool meets() const;
  // Steps from one synchronisation to the next, as the schedule has it now.
  std::int64_t sync_interval() const;
  // Of schedule adaptive, at the last average: the distance that it keeps near its target. 0 before.
  double drift() const;
  // What a schedule must find again when training is resumed.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

  // Throws InvalidArgument unless these are the parameters that are reduced: an optimizer may have been given
  // others after it was made.
  void check_parameters(const std::vector<at::Tensor>& parameters) const;

  // Time that callers have spent waiting for other ranks, in seconds, total.
  double wait_seconds() const;

 private:
  // Whether this step's gradients only add to those of the next.
  bool keeps() const { return kept_ + 1 < steps_of_gradients_; }
  bool stands_apart() const;
  GradientNorm norm_of_step() const;
  void clip(const GradientNorm& norm, double max_norm);
  void forget_kept();

  const std::vector<at::Tensor> given_;       // repetitions included
  const std::vector<at::Tensor> parameters_;  // each once
  std::unique_ptr<GradientSync> sync_;
  const Rank rank_;
  double clipped_to_ = 0.0;  // the norm after clipping, of step clipped_step_
  std::uint64_t clipped_step_ = 0;
  std::unique_ptr<ParameterAverage> average_;  // null: gradients are reduced
  const SyncSchedule schedule_;
  const std::int64_t steps_of_gradients_;  // that are reduced at once
  std::int64_t kept_ = 0;                  // steps whose gradients have been
  bool tried_ = false;                     // to synchronize those, and this one's
  int skips_ = 0;
};

}  // namespace rueda
