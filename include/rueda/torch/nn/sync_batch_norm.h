// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over the batches of all ranks together.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <iosfwd>
#include <memory>
#include <string>

#include "rueda/rueda.h"
#include "rueda/torch/collectives/scope_reference.h"

namespace rueda {

// Purpose: a torch::nn::BatchNorm over the joint batch of the scope's ranks. Outputs, gradients of inputs
// and running statistics equal those of one process with the whole batch. Inputs have the shape (N, C,
// ...). N may differ between ranks, and may be 0. Gradients of weight and bias are the part of this rank.
// Their sum over ranks is the gradient of the whole batch, as for any other layer. So DistributedOptimizer
// averages them correctly for a loss that is a mean over this rank's rows.
//
// All ranks construct their layers in one order. In training they run equally many forward and backward
// passes. Not for use with join(). In eval() it does not communicate. Used by one thread.
class SyncBatchNormImpl : public torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
  using Base = torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions>;

 public:
  // Not collective. Throws InvalidArgument for 0 features, and on a rank outside of the scope.
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, const Scope& scope = {});
  // Takes the options, the statistics and the parameters of `other` without a copy. Optimizers of these
  // parameters remain valid.
  template <std::size_t D, class Derived>
  explicit SyncBatchNormImpl(const torch::nn::BatchNormImplBase<D, Derived>& other, const Scope& scope = {})
      : SyncBatchNormImpl(other.options, scope) {
    adopt(other.weight, other.bias, {other.running_mean, other.running_var, other.num_batches_tracked});
    train(other.is_training());
  }

  // Normalises `input`. In training, throws InvalidArgument if the input of any rank has a wrong shape or
  // type. Also throws it if a channel has fewer than two values in all. Throws Mismatch if num_features
  // differ. The text is the same on every rank.
  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 private:
  void _check_input_dim(const at::Tensor& input) override;
  void adopt(const at::Tensor& weight, const at::Tensor& bias, const std::vector<at::Tensor>& statistics);
  void update_running_statistics(const at::Tensor& mean, const at::Tensor& variance, double count);

  ScopeReference scope_;
  std::string name_;
};
// The module holder, as for LibTorch's modules: SyncBatchNorm norm(torch::nn::BatchNormOptions(64));
TORCH_MODULE(SyncBatchNorm);

// Replaces every BatchNorm1d, 2d and 3d below `module` by a SyncBatchNorm with the same parameters. Returns
// their number. All ranks of the scope call it. It reaches modules that a Sequential holds, at any depth.
// It cannot replace a BatchNorm that is a member of your class. Then it throws InvalidArgument with the
// names of these members, and replaces nothing. Declare such members as rueda::SyncBatchNorm.
int convert_sync_batch_norm(torch::nn::Module& module, const Scope& scope = {});

}  // namespace rueda
