// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/local_sgd/parameter_average.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/state/parameters.h"
#include "rueda/training.h"

namespace rueda {
namespace {

constexpr const char* kInterval = "rueda_interval";
constexpr const char* kMomentum = "rueda_outer_momentum";

double squares(const std::vector<at::Tensor>& tensors) {
  double sum = 0.0;
  for (const at::Tensor& norm : at::_foreach_norm(tensors, 2, at::kDouble)) {
    const double value = norm.item<double>();
    sum += value * value;
  }
  return sum;
}

std::string key(std::size_t index) { return fmt::format("{}.{}", kMomentum, index); }

}  // namespace

ParameterAverage::ParameterAverage(std::vector<at::Tensor> parameters, std::vector<std::string> names,
                                   const SyncSchedule& schedule, Compression compression,
                                   double compression_share, const Scope& scope)
    : parameters_(std::move(parameters)),
      names_(std::move(names)),
      schedule_(schedule),
      reduction_{.op = ReduceOp::average, .compression = compression, .compression_share = compression_share},
      scope_(scope),
      prefix_(scope.runtime().next_name("parameter_average", scope.process_set())),
      interval_(schedule.kind() == SyncSchedule::Kind::adaptive ? 1 : schedule.steps()) {
  const at::NoGradGuard no_grad;
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (std::size_t i = 0; i < parameters_.size(); ++i) named.emplace_back(names_[i], parameters_[i]);
  broadcast_parameters(named, scope.rank_at(0), scope);
  for (const at::Tensor& parameter : parameters_) {
    common_.push_back(parameter.detach().clone());
    if (schedule_.kind() == SyncSchedule::Kind::diloco) momentum_.push_back(at::zeros_like(parameter));
  }
}

// Not after the average: the program may give all ranks other parameters between steps.
void ParameterAverage::before_step() {
  const at::NoGradGuard no_grad;
  if (steps_apart_ == 0) at::_foreach_copy_(common_, parameters_);
}

void ParameterAverage::after_step() {
  if (++steps_apart_ >= interval_) synchronize();
}

void ParameterAverage::flush() {
  std::array<std::int64_t, 1> apart{steps_apart_};
  const TensorView both = view(std::span<std::int64_t>(apart));
  allreduce_async(prefix_ + "/apart", both, both, {ReduceOp::max}, scope_.get()).wait();
  if (apart[0] == 0) return;
  before_step();  // where this rank has not stepped
  synchronize();
}

void ParameterAverage::synchronize() {
  const at::NoGradGuard no_grad;
  at::_foreach_sub_(parameters_, common_);  // from here on the way that each has gone
  const bool adaptive = schedule_.kind() == SyncSchedule::Kind::adaptive;
  const double own_squares = adaptive ? squares(parameters_) : 0.0;
  const Status status = reduce();
  steps_apart_ = 0;
  if (!status.ok()) at::_foreach_copy_(parameters_, common_);
  // By all, also where it has failed: the others wait for it.
  const double stretch =
      adaptive ? adapt(status.ok() ? own_squares : std::numeric_limits<double>::quiet_NaN()) : 1.0;
  throw_if_error(status);
  if (stretch > 1.0) at::_foreach_mul_(parameters_, stretch);
  step_outer();
  at::_foreach_add_(parameters_, common_);
}

// Returns when nobody writes into parameters any more, whatever fails.
Status ParameterAverage::reduce() {
  const auto begin = std::chrono::steady_clock::now();
  const PhaseScope waiting(Phase::wait);
  std::vector<TensorHandle> handles;
  Status failure;
  try {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      handles.push_back(allreduce_async_(parameters_[i], fmt::format("{}.{}", prefix_, names_[i]), reduction_,
                                         scope_.get()));
    }
  } catch (const Error& error) {
    failure = {error.code(), error.what()};
  }
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const Status status = handles[i].wait_status();
    if (failure.ok() && !status.ok())
      failure = {status.code, fmt::format("average of parameter '{}': {}", names_[i], status.message)};
  }
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return failure;
}

// The ranks' ways d_i have a mean d: mean |d_i - d|^2 = mean |d_i|^2 - |d|^2, which is (n - 1) |d|^2 if the
// ways of n ranks have nothing in common. Both are reduced, so that all ranks come to the same interval, bit
// for bit. Returns the factor by which d is to be made longer.
double ParameterAverage::adapt(double own_squares) {
  std::array<double, 2> sums{own_squares, squares(parameters_)};
  const TensorView both = view(std::span<double>(sums));
  allreduce_async(prefix_ + "/drift", both, both, {ReduceOp::average}, scope_.get()).wait();
  const double others = std::max(1.0, static_cast<double>(scope_.get().size()) - 1.0);
  drift_ = std::sqrt(std::max(sums[0] - sums[1], 0.0) / (sums[1] * others));
  if (!std::isfinite(drift_)) return 1.0;  // nothing has moved, or training has diverged
  const double steps = static_cast<double>(interval_) * std::clamp(schedule_.target() / drift_, 0.5, 2.0);
  const bool longer = drift_ < schedule_.target();
  interval_ = std::clamp(static_cast<std::int64_t>(longer ? std::ceil(steps) : std::floor(steps)),
                         std::int64_t{1}, schedule_.steps());
  return std::min(std::sqrt(sums[0] / sums[1]), schedule_.most_stretch());
}

// The mean way, negated, is the gradient: v = m v + d, and the parameters go lr (d + m v).
void ParameterAverage::step_outer() {
  if (momentum_.empty()) return;
  const double momentum = schedule_.outer_momentum();
  at::_foreach_mul_(momentum_, momentum);
  at::_foreach_add_(momentum_, parameters_);
  at::_foreach_add_(parameters_, momentum_, momentum);
  at::_foreach_mul_(parameters_, schedule_.outer_learning_rate());
}

void ParameterAverage::save(torch::serialize::OutputArchive& archive) const {
  archive.write(kInterval, at::tensor({interval_}), true);
  for (std::size_t i = 0; i < momentum_.size(); ++i) archive.write(key(i), momentum_[i], true);
}

void ParameterAverage::load(torch::serialize::InputArchive& archive) {
  const at::NoGradGuard no_grad;
  at::Tensor interval;
  if (schedule_.kind() == SyncSchedule::Kind::adaptive && archive.try_read(kInterval, interval, true))
    interval_ = std::clamp(interval.item<std::int64_t>(), std::int64_t{1}, schedule_.steps());
  for (std::size_t i = 0; i < momentum_.size(); ++i) {
    at::Tensor saved;
    if (archive.try_read(key(i), saved, true) && saved.sizes() == momentum_[i].sizes())
      momentum_[i].copy_(saved);
    else
      momentum_[i].zero_();
  }
}

}  // namespace rueda
