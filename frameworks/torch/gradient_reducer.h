// SPDX-License-Identifier: Apache-2.0
// Reduced gradients for any optimizer, and for what comes between reduction and step.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/rueda.h"
#include "frameworks/torch/distributed_options.h"

namespace rueda {

class GradientSync;

// Purpose: averages the gradients of a list of parameters over all ranks while backward passes run. Owned by
// the thread that steps; lives no longer than its Runtime is needed, and dies outside of backward passes.
// DistributedOptimizer has one; with an optimizer of another kind:
//   rueda::GradientReducer reducer(parameters);
//   loss.backward();  reducer.synchronize();  clip(parameters);  optimizer.step();
//   reducer.before_zero_grad(); ...
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
  // gradients.
  void synchronize();

  // Purpose: while it lives, before_step() does not synchronize. Lives no longer than its GradientReducer.
  class [[nodiscard]] Skip {
   public:
    explicit Skip(GradientReducer& reducer) : reducer_(reducer) { ++reducer_.skips_; }
    ~Skip() { --reducer_.skips_; }
    Skip(const Skip&) = delete;
    Skip& operator=(const Skip&) = delete;

   private:
    GradientReducer& reducer_;
  };
  // For steps on local gradients (overlap = false), or on gradients that the caller has reduced or changed
  // itself. .grad holds those of this step.
  Skip skip_synchronize();

  // What an optimizer's step() does first: synchronize() unless done or skipped; later gradients belong to a
  // new step.
  void before_step();
  // What zero_grad() does first: throws InvalidArgument while gradients are being reduced; begins a new step.
  void before_zero_grad();

  // Throws InvalidArgument unless these are the parameters that are reduced: an optimizer may have been given
  // others after it was made.
  void check_parameters(const std::vector<at::Tensor>& parameters) const;

  // Time that callers have spent in synchronize(), in seconds, total.
  double wait_seconds() const;

 private:
  std::unique_ptr<GradientSync> sync_;
  int skips_ = 0;
};

}  // namespace rueda
