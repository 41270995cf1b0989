// SPDX-License-Identifier: Apache-2.0
// Reduces gradients for any optimizer, with access to them before the step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/torch/collectives/scope_reference.h"
#include "rueda/torch/reducer/distributed_options.h"
#include "rueda/torch/reducer/gradient_norm.h"

namespace torch::serialize {
class OutputArchive;
class InputArchive;
}  // namespace torch::serialize

namespace rueda {

class GradientSync;
class ParameterAverage;

// Purpose: averages the gradients of parameters over all ranks while backward passes run. Owned by the
// thread that steps. It is destroyed outside of backward passes. If you give it a Runtime of your own, it
// lives no longer than that. DistributedOptimizer contains one. With your own optimizer:
//
//   rueda::GradientReducer reducer(parameters);
//   loss.backward();
//   if (reducer.synchronize()) clip(parameters);
//   if (reducer.before_step()) optimizer.step();
//   reducer.after_step();
//   if (reducer.before_zero_grad()) optimizer.zero_grad();
class GradientReducer {
 public:
  // Collective. Every rank of the scope passes the same parameters and options. Throws Mismatch if they
  // differ. Throws InvalidArgument for impossible options, and for parameters that Rueda cannot move.
  //
  // Not collective in an elastic job outside of elastic::run(), where a new worker comes alone. There
  // begin_generation() does the collective part and throws these exceptions.
  explicit GradientReducer(const std::vector<at::Tensor>& parameters, const DistributedOptions& options = {},
                           const Scope& scope = {});
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Waits for the reductions of this step. Then .grad holds the same values on every rank. Every rank calls
  // it once a step. A second call does nothing until a backward pass brings new gradients.
  //
  // Returns false if the schedule reduces no gradients in this step. They add up, or are in flight, so do
  // not change .grad. If the schedule averages parameters, .grad holds the gradients of this rank.
  bool synchronize();

  // Calls synchronize(), and returns the 2-norm of all gradients as one vector, in float32. It is not
  // finite if a gradient is not, as gradient scalers need. It is 0 if synchronize() returns false. If the
  // schedule averages parameters, it is the norm of this rank.
  //
  // With `measure_norm` it needs no further pass. It is then the norm of the gradients as they were
  // reduced. Later changes by the program do not count, except for clipping. A device computes the norm of
  // its gradients, and the host waits when it reads the number.
  GradientNorm grad_norm();
  // Calls grad_norm(), then scales the gradients down to `max_norm`, unless the norm is not finite. Returns
  // the norm before.
  GradientNorm clip_grad_norm_(double max_norm);

  // Purpose: before_step() does not synchronize while it lives. It lives no longer than its
  // GradientReducer.
  class [[nodiscard]] Skip {
   public:
    // skip_synchronize() makes it.
    explicit Skip(GradientReducer& reducer) : reducer_(reducer) { ++reducer_.skips_; }
    ~Skip() { --reducer_.skips_; }
    Skip(const Skip&) = delete;
    Skip& operator=(const Skip&) = delete;

   private:
    GradientReducer& reducer_;
  };
  // Use it for steps on local gradients (overlap = false), or on gradients that you have reduced or changed
  // yourself. .grad holds the gradients of this step. With schedule every_step only.
  Skip skip_synchronize();
  // skip_synchronize() calls these first. Call them before you construct a Skip yourself.
  void check_captured() const;
  void check_skip();

  // Purpose: backward passes only add to .grad while it lives, and do not count as passes of a step. The
  // next counted pass reduces their gradients, too. It lives no longer than its GradientReducer.
  class [[nodiscard]] NoSync {
   public:
    // no_sync() makes it.
    explicit NoSync(GradientReducer& reducer);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    GradientReducer& reducer_;
  };
  // The same as no_sync() of Python's DistributedDataParallel.
  NoSync no_sync() { return NoSync(*this); }

  // Registers hooks again for parameters that have changed their dtype, or now require a gradient. A model
  // calls it before its forward pass if no step() or zero_grad() calls this reducer.
  void refresh_hooks();

  // An optimizer calls it first in step(). It calls synchronize() unless done or skipped. Later gradients
  // belong to a new step. Returns false if the optimizer must not step now (see synchronize).
  bool before_step();
  // An optimizer calls it last in step(), also if it did not step. It averages parameters if the schedule
  // says so.
  void after_step();
  // An optimizer calls it first in zero_grad(). It begins a new step. Throws InvalidArgument while
  // gradients are being reduced. Returns false if the schedule adds gradients up, so they must stay.
  bool before_zero_grad();

  // Ends an open interval of the schedule. Ranks with different parameters average them. Returns true if
  // .grad now holds gradients that were kept or in flight, clipped to `max_norm`. Then step on them, and
  // call zero_grad(). Collective. Afterwards all ranks have the same parameters. Call it at the end of
  // training and before a checkpoint.
  bool flush(std::optional<double> max_norm = std::nullopt);
  // Throws InvalidArgument if flush() has work to do. The text says that flush() must come before `action`.
  void check_flushed(const char* action) const;

  // Tells whether this step ends with the same parameters on all ranks and nothing kept back. The answer is
  // equal on all ranks. Call it before synchronize(). After such a step you may save a checkpoint or
  // evaluate. With one_step_late the parameters are equal after each step, but gradients are in flight:
  // call flush() before a checkpoint.
  bool is_sync_step() const;
  // Returns the present number of steps between two synchronisations.
  std::int64_t sync_interval() const;
  // Returns the distance of the ranks at the last average of schedule adaptive. 0 before the first average.
  double drift() const;
  // Save and load the state of the schedule, for training that resumes.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

  // Throws InvalidArgument unless these are the reduced parameters. An optimizer may have got others after
  // its construction.
  void check_parameters(const std::vector<at::Tensor>& parameters) const;

  // Returns the total time in seconds for which callers have waited for other ranks.
  double wait_seconds() const;

  // elastic::run() calls it when the ranks have changed. Drops everything that belongs to the former ranks,
  // and works with the present ones from now on. Collective.
  void begin_generation();
  // The present generation ends. Gradients in memory shared by its ranks become undefined if the last step
  // has used them, no later pass has changed them, and the program does not hold them.
  void end_generation();
  // Steps are counted from the first call on.
  void count_steps() { steps_.counted = true; }
  // Returns the number of counted steps.
  std::uint64_t steps_taken() const { return steps_.taken; }
  // Returns true if no operation of this rank has ended since the last counted step.
  bool nothing_since_step() const;
  // Returns true if each step changes the parameters at once, and alike on all ranks.
  bool steps_alike() const { return options_.schedule == SyncSchedule::every_step(); }

 private:
  // The steps, as elastic::State counts them.
  struct Steps {
    bool counted = false;
    std::uint64_t taken = 0;
    std::uint64_t operations = 0;  // that had ended at the last one
  };

  GradientSync& sync();
  // Whether the gradients of this step only add to those of the next.
  bool keeps() const { return kept_ + 1 < steps_of_gradients_; }
  bool stands_apart() const;
  GradientNorm norm_of_step() const;
  void clip(const GradientNorm& norm, double max_norm);
  void forget_kept();

  const std::vector<at::Tensor> given_;       // with repetitions
  const std::vector<at::Tensor> parameters_;  // each once
  const DistributedOptions options_;
  const ScopeReference scope_;
  std::unique_ptr<GradientSync> sync_;  // null: this generation has not begun
  double clipped_to_ = 0.0;             // the norm after clipping, in step clipped_step_
  std::uint64_t clipped_step_ = 0;
  std::unique_ptr<ParameterAverage> average_;  // null: gradients are reduced
  const std::int64_t steps_of_gradients_;      // number of steps in one reduction
  std::int64_t kept_ = 0;                      // number of steps that kept their gradients
  bool tried_ = false;                         // whether this step has tried to synchronize
  int skips_ = 0;
  Steps steps_;
};

// Purpose: the base of objects with a GradientReducer, such as a DistributedOptimizer.
class HasGradientReducer {
 public:
  virtual ~HasGradientReducer() = default;
  // Returns the reducer, which lives as long as the object.
  virtual GradientReducer& gradient_reducer() = 0;
};

}  // namespace rueda
