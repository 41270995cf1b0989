// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/buffers/gradient_buffers.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

namespace rueda {
namespace {

// to = from * factor; the two may be one. 16-bit values in float32: torch would round the factor to their
// type.
void write_times(const at::Tensor& to, const at::Tensor& from, double factor) {
  if (factor == 1.0) {
    if (!to.is_same(from)) to.copy_(from);
  } else if (from.element_size() == 2) {
    to.copy_(from.to(at::kFloat).mul_(factor));
  } else {
    at::Tensor result = to;
    at::mul_out(result, from, at::native::wrapped_scalar_tensor(factor));
  }
}

// A tensor that Python has seen keeps its object, which counts as a holder.
bool is_held_once(const at::Tensor& tensor) {
  const bool has_idle_object =
      tensor.use_count() == 2 && tensor.unsafeGetTensorImpl()->pyobj_slot()->has_unique_reference();
  return (tensor.use_count() == 1 || has_idle_object) && tensor.storage().use_count() == 1;
}

std::vector<at::ScalarType> types_of(const std::vector<at::Tensor>& parameters, bool sums) {
  std::vector<at::ScalarType> types;
  types.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) types.push_back(gradient_type(parameter, sums));
  return types;
}

}  // namespace

GradientBuffers::GradientBuffers(const std::string& name, std::vector<at::Tensor> parameters,
                                 std::vector<Names> banks, bool sums, const ScopeReference& scope)
    : parameters_(std::move(parameters)),
      banks_(banks.size()),
      sums_(sums),
      scope_(scope),
      host_(parameters_, sums, banks_),
      device_(name + "/slots", parameters_, types_of(parameters_, sums), std::move(banks), scope) {}

void GradientBuffers::prepare() { host_.refill(scope_.get().runtime()); }

void GradientBuffers::end_step() {
  device_.end_step();
  host_.refill(scope_.get().runtime());
}

PlacedGradient GradientBuffers::placed(std::size_t bank, std::size_t index, at::Tensor gradient) const {
  const GradientPlacement placement = device_.placement(bank, index, gradient);
  return {std::move(gradient), placement};
}

at::Tensor GradientBuffers::take(std::size_t bank, std::size_t index, at::ScalarType type, bool on_device) {
  return on_device ? device_.take(bank, index, type) : host_.take(index, type);
}

PlacedGradient GradientBuffers::place(std::size_t bank, std::size_t index, const at::Tensor& gradient,
                                      double factor, std::size_t holders, bool kept) {
  const bool on_device = gradient.is_cuda();
  if (on_device) {
    device_.note(index, gradient.scalar_type());
  } else {
    host_.serve_this_thread();
  }
  const bool there = on_device ? device_.contains(bank, index, gradient) : host_.contains(gradient);
  const bool alone = gradient.storage().use_count() <= holders;
  const bool moves = !(kept && !alone) && !(there && alone);
  if (moves && !gradient.requires_grad() && gradient.sizes() == parameters_[index].sizes()) {
    at::Tensor memory = take(bank, index, gradient.scalar_type(), on_device);
    if (memory.defined()) {
      write_times(memory, gradient, factor);
      return placed(bank, index, std::move(memory));
    }
  }
  at::Tensor own = alone || kept || gradient.requires_grad() ? gradient : gradient.clone();
  if (on_device) own = own.contiguous();
  write_times(own, own, factor);
  return placed(bank, index, std::move(own));
}

bool GradientBuffers::has_alone(std::size_t index, const at::Tensor& gradient) const {
  if (gradient.layout() != at::kStrided || !is_held_once(gradient)) return false;
  if (!gradient.is_cuda()) return host_.gave(gradient);
  for (std::size_t bank = 0; bank < banks_; ++bank) {
    if (device_.contains(bank, index, gradient)) return true;
  }
  return false;
}

PlacedGradient GradientBuffers::zeros(std::size_t bank, std::size_t index) {
  const at::Tensor& parameter = parameters_[index];
  const bool on_device = parameter.is_cuda();
  const at::ScalarType type = gradient_type(parameter, sums_);
  if (on_device) device_.note(index, type);
  const at::Tensor memory = take(bank, index, type, on_device);
  if (memory.defined()) return placed(bank, index, memory.zero_());
  const at::TensorOptions options = parameter.options().dtype(type);
  return placed(bank, index,
                on_device ? at::zeros(parameter.sizes(), options) : at::zeros_like(parameter, options));
}

void GradientBuffers::abandon_step() {
  host_.abandon();
  device_.abandon();
}

void GradientBuffers::begin_job() {
  abandon_step();
  device_.begin_job();
}

}  // namespace rueda
