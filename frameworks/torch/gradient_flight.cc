// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_flight.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "frameworks/torch/tensor_adapter.h"

namespace rueda {

GradientFlight::GradientFlight(std::string name, std::vector<std::string> parameters,
                               const Reduction& reduction, const ScopeReference& scope)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      reduction_(reduction),
      scope_(scope),
      gradients_(parameters_.size()) {}

void GradientFlight::submit(std::size_t index, at::Tensor gradient) {
  auto tensors = std::make_shared<OperationTensors>(gradient, gradient);
  Submission submission =
      submission_for(Operation::allreduce, fmt::format("{}.{}", name_, parameters_[index]), tensors);
  reduction_.write_to(submission.request);
  const Scope scope = scope_.get();
  scope.place(submission);
  gradients_[index].handle = scope.runtime().submit(std::move(submission));
  mark_changed(gradient);
  gradients_[index].memory = std::move(gradient);
}

std::optional<std::size_t> GradientFlight::first() const {
  const auto found =
      std::ranges::find_if(gradients_, [](const Gradient& each) { return each.memory.defined(); });
  if (found == gradients_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - gradients_.begin());
}

void GradientFlight::submit_presence() {
  std::vector<float> flags;
  for (const Gradient& each : gradients_) flags.push_back(each.memory.defined() ? 1.0F : 0.0F);
  presence_ =
      allreduce_async_(at::tensor(flags, at::kFloat), name_ + ".presence", {ReduceOp::sum}, scope_.get());
}

Status GradientFlight::holders(std::vector<float>& holders) const {
  const Status status = presence_->wait_status();
  if (!status.ok()) return status;
  const at::Tensor counts = presence_->wait();
  holders.assign(counts.const_data_ptr<float>(), counts.const_data_ptr<float>() + counts.numel());
  return status;
}

Status GradientFlight::wait() const {
  Status failure;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (!submitted(i)) continue;
    const Status status = gradients_[i].handle.wait_status();
    if (!status.ok() && failure.ok()) {
      failure = {status.code, fmt::format("gradient of parameter '{}': {}", parameters_[i], status.message)};
    }
  }
  return failure;
}

void GradientFlight::clear() {
  std::ranges::fill(gradients_, Gradient());
  presence_.reset();
}

}  // namespace rueda
