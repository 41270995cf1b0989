// SPDX-License-Identifier: Apache-2.0
// The optimizer of a run, whichever algorithm and however it talks to the other ranks.
#pragma once

#include <memory>
#include <string>

#include "examples/lib/training/options/options.h"
#include "rueda/torch/elastic/kept.h"
#include "rueda/torch/reducer/gradient_norm.h"
#include "rueda/torch/state/archive.h"

namespace torch::nn {
class Module;
}

namespace rueda::examples {

// One optimizer step in the order zero_grad, backward passes, synchronize, (clip), step. Used by one thread;
// refers to the parameters of the module it was made for.
class StepOptimizer {
 public:
  virtual ~StepOptimizer() = default;

  virtual void zero_grad() = 0;
  // Before synchronize(): returns true if this step ends with the same parameters on all ranks. A checkpoint
  // keeps and an evaluation measures these. The same on all ranks.
  virtual bool is_sync_step() const = 0;
  virtual void set_learning_rate(double learning_rate) = 0;
  // Afterwards gradients are those to step on: the mean over ranks and passes, or this rank's. False: the
  // schedule has none for this step.
  virtual bool synchronize() = 0;
  // After synchronize(): scales the gradients so that their norm as one vector is at most `limit`. Returns
  // the norm before, which a device may still be computing.
  virtual GradientNorm clip(double limit) = 0;
  virtual void step() = 0;
  // All ranks have the same parameters afterwards, if they synchronise at all. Gradients that this steps on
  // are clipped to `limit`, unless it is 0.
  virtual void flush(double limit) = 0;
  // Returns true if the result of save_state() is this rank's alone. Else rank 0 has the same for all.
  virtual bool has_own_state() const = 0;
  // After flush(): all that load_state() needs for going on as if nothing had been. Collective.
  virtual std::string save_state() = 0;
  // On every rank, with its own saved state or rank 0's. Throws if the state does not fit; collective.
  virtual void load_state(const std::string& bytes, const LoadOptions& options) = 0;
  // Steps from one synchronisation to the next, as they are now.
  virtual std::int64_t sync_interval() const = 0;
  // Of schedule adaptive: how far the ranks were apart at their last average.
  virtual double drift() const = 0;
  // Time spent waiting for other ranks so far.
  virtual double wait_seconds() const = 0;
  // For an elastic::State. Throws InvalidArgument where each rank has a part of the state.
  virtual elastic::Kept kept() = 0;
};

// Weight decay is left out for biases and layer norms.
std::unique_ptr<StepOptimizer> make_optimizer(const torch::nn::Module& module, const TrainOptions& options);

}  // namespace rueda::examples
