// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/nn/sync_batch_norm.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "frameworks/torch/reducer/backward_errors.h"
#include "rueda/torch/collectives/operations.h"

namespace rueda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Purpose: the scope and the name of the reduction in the backward pass of one forward call.
struct Exchange : torch::CustomClassHolder {
  Exchange(ScopeReference scope, std::string name) : scope(std::move(scope)), name(std::move(name)) {}
  ScopeReference scope;  // the backward pass may come after the job's end
  std::string name;
};

// Of the batch that all ranks have together, for each channel, in float64.
struct Statistics {
  at::Tensor mean;
  at::Tensor squares;  // the sum of squared distances from it
  double count = 0;    // of values
};

// 16-bit floats are normalised in float32.
at::ScalarType computed_in(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

std::string problem_in(const at::Tensor& input, std::int64_t features) {
  if (!input.defined()) return "the input is undefined";
  if (!input.is_floating_point() || !(input.is_cpu() || input.is_cuda()) || input.layout() != at::kStrided) {
    return fmt::format(
        "the input is of {} on {}; it must be dense, of floating point, in host memory or on a CUDA device",
        c10::toString(input.scalar_type()), input.device().str());
  }
  if (input.dim() < 2 || input.size(1) != features) {
    return fmt::format("the input has the shape {}; it must be (N, {}, ...)", to_string(input.sizes()),
                       features);
  }
  return {};
}

// One row: means, sums of squared distances.
at::Tensor own_statistics(const at::Tensor& input, std::int64_t features, double count) {
  at::Tensor row = at::zeros({1, 2 * features}, input.options().dtype(at::kDouble));
  if (count == 0) return row;
  const auto [mean, variance] = at::batch_norm_update_stats(input.to(computed_in(input)), {}, {}, 0.0);
  row[0].narrow(0, 0, features).copy_(mean);
  row[0].narrow(0, features, features).copy_(variance).mul_(count);
  return row;
}

// Chan's combination of parts, in the ranks' order: no difference of large squares, and the same bits on all.
Statistics combined(const at::Tensor& counts, const at::Tensor& rows, std::int64_t features) {
  const at::TensorOptions options = rows.options();
  Statistics all{at::zeros({features}, options), at::zeros({features}, options)};
  for (std::int64_t rank = 0; rank < rows.size(0); ++rank) {
    const at::Tensor row = rows[rank];
    const double count = counts.const_data_ptr<double>()[rank];
    if (count <= 0) continue;
    const double share = count / (all.count + count);
    const at::Tensor step = row.narrow(0, 0, features) - all.mean;
    all.squares += row.narrow(0, features, features) + step * step * (all.count * share);
    all.mean += step * share;
    all.count += count;
  }
  return all;
}

// How many values come together is for the host to know, which waits for no device.
Statistics gather(const at::Tensor& input, std::int64_t features, const std::string& name,
                  const Scope& scope) {
  constexpr double kRefused = -1;  // as the count
  const at::NoGradGuard no_grad;
  const std::string problem = problem_in(input, features);
  const double count =
      problem.empty() ? static_cast<double>(input.numel()) / static_cast<double>(features) : kRefused;
  const TensorHandle counting =
      allgather_async(at::full({1}, count, at::TensorOptions(at::kDouble)), name + ".counts", scope);
  at::Tensor mine;
  if (problem.empty()) {
    mine = own_statistics(input.detach(), features, count);
  } else {  // where the others' probably are
    const bool there = input.defined() && input.is_cuda();
    mine = at::zeros({1, 2 * features},
                     at::TensorOptions(at::kDouble).device(there ? input.device() : at::kCPU));
  }
  const TensorHandle gathering = allgather_async(mine, name + ".forward", scope);
  const at::Tensor counts = counting.wait();
  if (counts.min().item<double>() < 0)
    refuse(fmt::format("{}: {}", name, failures_of_all(name + ".failures", problem, scope)));
  Statistics all = combined(counts, gathering.wait(), features);
  if (all.count < 2) {
    refuse(fmt::format("{}: all ranks together have {} values a channel; training needs at least 2", name,
                       all.count));
  }
  return all;
}

// The tensor's values as [1, C, 1, ...], to be used with `input`.
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = input.size(1);
  return values.view(shape);
}

// Purpose: y = (x - mean) / sqrt(variance + eps) * weight + bias. Mean and variance depend on the x of all
// ranks; so the gradient of x needs two sums over all ranks.
struct Normalise : torch::autograd::Function<Normalise> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& mean, const at::Tensor& variance,
                            double eps, double count, c10::intrusive_ptr<Exchange> exchange) {
    const at::ScalarType type = computed_in(input);
    const at::Tensor inverse = (variance + eps).rsqrt();
    context->save_for_backward({input, weight, mean.to(type), inverse.to(type)});
    context->saved_data["count"] = count;
    context->saved_data["exchange"] = c10::IValue::make_capsule(std::move(exchange));
    if (input.numel() == 0) return at::empty_like(input);
    return std::get<0>(at::native_batch_norm(input.to(type), weight.to(type), bias.to(type), mean.to(type),
                                             variance.to(type), false, 0.0, eps))
        .to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    try {
      return gradients_of_inputs(context, gradients);
    } catch (...) {
      rethrow_from_backward_pass();
    }
  }

  static variable_list gradients_of_inputs(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled())
      refuse("SyncBatchNorm has no second derivative; run backward() without create_graph");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const at::ScalarType type = mean.scalar_type();
    const std::int64_t features = input.size(1);
    std::vector<std::int64_t> others;  // all dimensions but the channels'
    for (std::int64_t i = 0; i < input.dim(); ++i) {
      if (i != 1) others.push_back(i);
    }
    const at::Tensor slope = gradients[0].to(type);
    const at::Tensor distance = input.to(type) - by_channel(mean, input);
    const at::Tensor sum = slope.sum(others), product = (slope * distance).sum(others);

    const at::Tensor sums = at::cat({sum, product}).to(at::kDouble);
    const auto exchange =
        c10::static_intrusive_pointer_cast<Exchange>(context->saved_data["exchange"].toCapsule());
    allreduce_(sums, exchange->name + ".backward", {ReduceOp::sum}, exchange->scope.get());
    sums.div_(context->saved_data["count"].toDouble());

    const at::Tensor mean_slope = sums.narrow(0, 0, features).to(type);
    const at::Tensor along = sums.narrow(0, features, features).to(type) * inverse * inverse;
    const at::Tensor scale = inverse * weight.to(type);
    at::Tensor of_input = (slope - by_channel(mean_slope, input) - distance * by_channel(along, input))
                              .mul_(by_channel(scale, input))
                              .to(input.scalar_type());
    const at::Tensor none;
    return {of_input,
            (product * inverse).to(weight.scalar_type()),
            sum.to(weight.scalar_type()),
            none,
            none,
            none,
            none,
            none};
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, const Scope& scope)
    : Base(options), scope_(scope), name_(scope.runtime().next_name("sync_batch_norm", scope.process_set())) {
  check_members(scope.rank_at(0), scope, "SyncBatchNorm");
  if (options.num_features() < 1)
    refuse(fmt::format("SyncBatchNorm of {} features; it must have one at least", options.num_features()));
}

void SyncBatchNormImpl::adopt(const at::Tensor& weight, const at::Tensor& bias,
                              const std::vector<at::Tensor>& statistics) {
  this->weight = parameters_["weight"] = weight;
  this->bias = parameters_["bias"] = bias;
  const std::vector<at::Tensor> own{running_mean, running_var, num_batches_tracked};
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].defined()) own[i].set_data(statistics[i]);
  }
}

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  const std::string problem = problem_in(input, options.num_features());
  if (!problem.empty()) refuse(fmt::format("{}: {}", name_, problem));
}

void SyncBatchNormImpl::update_running_statistics(const at::Tensor& mean, const at::Tensor& variance,
                                                  double count) {
  if (!running_mean.defined()) return;
  const at::NoGradGuard no_grad;
  num_batches_tracked += 1;
  const std::optional<double> given = options.momentum();
  const double momentum = given ? *given : 1.0 / num_batches_tracked.item<double>();
  const at::Tensor unbiased = variance * (count / (count - 1));
  running_mean.mul_(1 - momentum).add_(mean.to(running_mean.scalar_type()), momentum);
  running_var.mul_(1 - momentum).add_(unbiased.to(running_var.scalar_type()), momentum);
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  if (!is_training()) {
    _check_input_dim(input);
    return at::batch_norm(input, weight, bias, running_mean, running_var, !running_mean.defined(), 0.0,
                          options.eps(), false);
  }
  const Scope scope = scope_.get();
  const Statistics all = gather(input, options.num_features(), name_, scope);
  const at::Tensor variance = all.squares / all.count;
  update_running_statistics(all.mean, variance, all.count);
  const at::Tensor scale = weight.defined() ? weight : at::ones(all.mean.sizes(), computed_in(input));
  const at::Tensor offset = bias.defined() ? bias : at::zeros_like(scale);
  return Normalise::apply(input, scale, offset, all.mean, variance, options.eps(), all.count,
                          c10::make_intrusive<Exchange>(scope_, name_));
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  const std::optional<double> momentum = options.momentum();
  stream << fmt::format("rueda::SyncBatchNorm({}, eps={}, momentum={}, affine={}, track_running_stats={})",
                        options.num_features(), options.eps(),
                        momentum ? fmt::format("{}", *momentum) : "None", options.affine(),
                        options.track_running_stats());
}

}  // namespace rueda
