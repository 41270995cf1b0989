// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/optimizers/fused_adamw.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {
namespace {

// Purpose: the numbers of steps as the kernel wants them: on the parameters' device, because the kernel reads
// them there. Parameters that have done as many share one. Lives for one call of the kernel.
class StepTensors {
 public:
  const at::Tensor& of(std::int64_t step, at::Device device) {
    for (const at::Tensor& made : tensors_[step]) {
      if (made.device() == device) return made;
    }
    return tensors_[step].emplace_back(
        at::scalar_tensor(static_cast<double>(step), at::TensorOptions(at::kFloat).device(device)));
  }

 private:
  std::map<std::int64_t, std::vector<at::Tensor>> tensors_;
};

}  // namespace

at::Tensor FusedAdamW::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode gradients_on(true);
    loss = closure();
  }
  const at::NoGradGuard no_grad;
  for (torch::optim::OptimizerParamGroup& group : param_groups()) step_group(group);
  return loss;
}

torch::optim::AdamWParamState& FusedAdamW::state_of(const at::Tensor& parameter, bool amsgrad) {
  auto& slot = state()[parameter.unsafeGetTensorImpl()];
  if (!slot) {
    auto fresh = std::make_unique<torch::optim::AdamWParamState>();
    fresh->exp_avg(at::zeros_like(parameter, at::MemoryFormat::Preserve));
    fresh->exp_avg_sq(at::zeros_like(parameter, at::MemoryFormat::Preserve));
    slot = std::move(fresh);
  }
  auto& state = static_cast<torch::optim::AdamWParamState&>(*slot);
  if (amsgrad && !state.max_exp_avg_sq().defined())
    state.max_exp_avg_sq(at::zeros_like(parameter, at::MemoryFormat::Preserve));
  return state;
}

void FusedAdamW::step_group(torch::optim::OptimizerParamGroup& group) {
  const auto& options = static_cast<const torch::optim::AdamWOptions&>(group.options());
  std::vector<at::Tensor> parameters, gradients, averages, square_averages, maxima, steps;
  StepTensors step_tensors;
  for (const at::Tensor& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    TORCH_CHECK(!parameter.grad().is_sparse(), "AdamW does not support sparse gradients");
    TORCH_CHECK(parameter.is_non_overlapping_and_dense(), "FusedAdamW: a parameter of shape ",
                parameter.sizes(), " and strides ", parameter.strides(),
                " is part of another tensor, whose other elements the fused kernel would change; use "
                "torch::optim::AdamW, or a parameter of its own");
    torch::optim::AdamWParamState& state = state_of(parameter, options.amsgrad());
    state.step(state.step() + 1);
    parameters.push_back(parameter);
    // The kernel walks through memory: all must lie as the parameter does, also loaded tensors.
    gradients.push_back(in_memory_order_of(parameter, parameter.grad()));
    state.exp_avg(in_memory_order_of(parameter, state.exp_avg()));
    state.exp_avg_sq(in_memory_order_of(parameter, state.exp_avg_sq()));
    averages.push_back(state.exp_avg());
    square_averages.push_back(state.exp_avg_sq());
    if (options.amsgrad()) {
      state.max_exp_avg_sq(in_memory_order_of(parameter, state.max_exp_avg_sq()));
      maxima.push_back(state.max_exp_avg_sq());
    }
    steps.push_back(step_tensors.of(state.step(), parameter.device()));
  }
  if (parameters.empty()) return;
  const auto [beta1, beta2] = options.betas();
  at::_fused_adamw_(parameters, gradients, averages, square_averages, maxima, steps, options.lr(), beta1,
                    beta2, options.weight_decay(), options.eps(), options.amsgrad(), /*maximize=*/false);
}

}  // namespace rueda
