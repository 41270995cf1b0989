// SPDX-License-Identifier: Apache-2.0
// AdamW with LibTorch's fused kernel.
#pragma once

#include <torch/optim/adamw.h>

#include <vector>

namespace rueda {

// Purpose: an AdamW that updates all parameters of a group by one call of LibTorch's fused kernel. Options,
// state and saved form are those of the base class. Values are the same except for rounding. Used by one
// thread.
class FusedAdamW : public torch::optim::AdamW {
 public:
  using AdamW::AdamW;
  // Runs `closure` once with gradients enabled, then steps. Throws c10::Error for sparse gradients, and for
  // a parameter that is a view of another tensor.
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  torch::optim::AdamWParamState& state_of(const at::Tensor& parameter, bool amsgrad);
  void step_group(torch::optim::OptimizerParamGroup& group);
};

}  // namespace rueda
