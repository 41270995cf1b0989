// SPDX-License-Identifier: Apache-2.0
// The running averages that Adam and its kin keep of a parameter's gradients.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/serialize.h>

#include <cstdint>
#include <tuple>

namespace rueda {

// Purpose: state of one parameter; names as in torch::optim::AdamParamState.
struct Moments : public torch::optim::OptimizerCloneableParamState<Moments> {
  TORCH_ARG(std::int64_t, step) = 0;  // steps so far
  TORCH_ARG(at::Tensor, exp_avg);     // of gradients
  TORCH_ARG(at::Tensor, exp_avg_sq);  // of their squares

 public:
  // Reads and writes the fields by their names, as torch does.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;

  // One more step: both averages move towards `gradient`.
  void take(const at::Tensor& gradient, std::tuple<double, double> betas);
};

// 1 - beta^step: what an average that began with zero has to be divided by.
double bias_correction(double beta, std::int64_t step);

// Of optimizers that keep Moments: throws c10::Error for a negative number, and for betas outside of [0, 1).
void check_rates(double lr, std::tuple<double, double> betas, double eps, double weight_decay);

}  // namespace rueda
