// SPDX-License-Identifier: Apache-2.0
// The gradients of a model of which each rank has a part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "frameworks/torch/reducer/gradient_norm.h"
#include "frameworks/torch/sharding/model_units.h"
#include "rueda/torch/collectives/operations.h"

namespace rueda {

// Purpose: reduces the gradients of each unit as soon as they are complete, so that each rank is left with
// its part of them, and adds up those of several passes. Belongs to a UnitScheduler; its thread uses it.
class UnitGradients {
 public:
  // The units outlive it.
  explicit UnitGradients(ModelUnits& units);

  int passes_per_step() const { return passes_per_step_; }
  // Whether the step has had its backward passes.
  bool passes_done() const { return passes_ >= passes_per_step_; }

  // In this backward pass: whether a gradient of parameter `index` has come, or its unit has been reduced.
  bool has(std::size_t index) const;
  // It has come. Reduces its unit when that is complete; whether it is.
  bool note(std::size_t index);
  // The backward pass is over: reduces and waits for all that is left.
  void end_pass();
  // It is over, or has failed: nothing of it is left on the parameters.
  void forget_pass();

  // Makes the mean over passes_per_step one over the passes that there were.
  void correct_passes();
  // The 2-norm of all gradients; they are scaled down to `most` if it is more. Collective.
  GradientNorm clip(double most);
  void begin_step() { passes_ = 0; }
  // The step's gradients go.
  void forget();

 private:
  struct State {
    bool submitted = false;  // its gradients are reduced, in this backward pass
    std::optional<TensorHandle> reduction{};
  };

  bool complete(std::size_t unit) const;
  bool has_any(std::size_t unit) const;
  void reduce(std::size_t unit);
  void reduce_rest();
  void collect(std::size_t unit);

  ModelUnits& units_;
  const Reduction reduction_;
  const int passes_per_step_;
  std::vector<State> states_;       // of units
  std::vector<std::uint8_t> came_;  // gradients of parameters, in this backward pass
  int passes_ = 0;                  // of this step
};

}  // namespace rueda
