// SPDX-License-Identifier: Apache-2.0
// Batch normalisation by the statistics of all ranks' batches together.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <iosfwd>
#include <memory>
#include <string>

#include "rueda/rueda.h"
#include "rueda/torch/collectives/scope_reference.h"

namespace rueda {

// Purpose: torch::nn::BatchNorm of the batch that the scope's ranks have together: outputs, gradients of
// inputs and running statistics are those of one process with the whole batch. Inputs are (N, C, ...); ranks
// may have different N, also 0. Gradients of weight and bias are this rank's part: their sum over ranks is
// that of the whole batch, so DistributedOptimizer treats them as those of any other layer, and its average
// fits a loss that is a mean over this rank's rows. Made by all ranks in one order and, in training, called
// by all equally often; also the backward passes; not for use with join(). In eval() it communicates nothing.
// Used by one thread.
class SyncBatchNormImpl : public torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
  using Base = torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions>;

 public:
  // Throws InvalidArgument for no features, and on a rank that the scope has not. Not collective.
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, const Scope& scope = {});
  // With the options, statistics and very parameters of `other`, which optimizers then go on with.
  template <std::size_t D, class Derived>
  explicit SyncBatchNormImpl(const torch::nn::BatchNormImplBase<D, Derived>& other, const Scope& scope = {})
      : SyncBatchNormImpl(other.options, scope) {
    adopt(other.weight, other.bias, {other.running_mean, other.running_var, other.num_batches_tracked});
    train(other.is_training());
  }

  // In training, throws InvalidArgument in the same words on every rank for an input that any of them cannot
  // normalise, and for less than two values a channel in all; Mismatch for different num_features.
  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 private:
  void _check_input_dim(const at::Tensor& input) override;
  void adopt(const at::Tensor& weight, const at::Tensor& bias, const std::vector<at::Tensor>& statistics);
  void update_running_statistics(const at::Tensor& mean, const at::Tensor& variance, double count);

  ScopeReference scope_;
  std::string name_;
};
// SyncBatchNorm, a holder as LibTorch's modules have: SyncBatchNorm norm(torch::nn::BatchNormOptions(64));
TORCH_MODULE(SyncBatchNorm);

// Replaces every BatchNorm1d, 2d and 3d in `module` and the modules below it by a SyncBatchNorm with the same
// parameters; returns how many. LibTorch lets it replace what a Sequential holds, at any depth. A BatchNorm
// that a class of yours holds as a member is out of its reach: then it throws InvalidArgument naming all of
// these, and replaces nothing; declare such members as rueda::SyncBatchNorm. Called by all ranks of the
// scope.
int convert_sync_batch_norm(torch::nn::Module& module, const Scope& scope = {});

}  // namespace rueda
