// SPDX-License-Identifier: Apache-2.0
// The running averages of a parameter's gradients in optimizers such as Adam.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/serialize.h>

#include <cstdint>
#include <tuple>

namespace rueda {

// Purpose: the state of one parameter. The fields have the names of torch::optim::AdamParamState.
struct Moments : public torch::optim::OptimizerCloneableParamState<Moments> {
  TORCH_ARG(std::int64_t, step) = 0;  // number of steps
  TORCH_ARG(at::Tensor, exp_avg);     // average of gradients
  TORCH_ARG(at::Tensor, exp_avg_sq);  // average of their squares

 public:
  // Reads and writes the fields by their names, as torch does.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;

  // Counts a step, and moves both averages towards `gradient`.
  void take(const at::Tensor& gradient, std::tuple<double, double> betas);
};

// Returns 1 - beta^step, the divisor that corrects an average with initial value 0.
double bias_correction(double beta, std::int64_t step);

// Throws c10::Error for a negative number, and for betas outside of [0, 1).
void check_rates(double lr, std::tuple<double, double> betas, double eps, double weight_decay);

}  // namespace rueda
