// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_window.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/log.h"
#include "frameworks/torch/pairwise_sum.h"

namespace rueda {
namespace {

std::size_t room(const at::Tensor& parameter, at::ScalarType type) {
  constexpr std::size_t kLine = 64;
  return (parameter.numel() * c10::elementSize(type) + kLine - 1) / kLine * kLine;
}

// The parameters in the order in which they were seen, then the others.
std::vector<std::size_t> order_of(const std::vector<std::uint64_t>& seen) {
  std::vector<std::size_t> order(seen.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t index) { return seen[index] - 1; });
  return order;
}

// 16-bit values in float32: torch would round the factor to their type.
at::Tensor times(const at::Tensor& values, double factor) {
  return values.element_size() == 2 ? values.to(at::kFloat).mul_(factor) : at::mul(values, factor);
}

bool reaches_all(const Runtime& runtime) {
  const Topology& topology = runtime.topology();
  return runtime.tensor_memory() && topology.size > 1 && topology.local_size == topology.size;
}

}  // namespace

void GradientWindow::end_step(Runtime& runtime) {
  if (memory_ != runtime.tensor_memory()) fits_ = false;
  if (!fits_) lay_out(runtime);
  fits_ = true;
}

at::ScalarType GradientWindow::type_of(const at::Tensor& parameter) const {
  return sums_ ? sum_type(parameter.scalar_type()) : parameter.scalar_type();
}

void GradientWindow::lay_out(Runtime& runtime) {
  places_.clear();
  memory_ = runtime.tensor_memory();
  if (!reaches_all(runtime)) return;
  std::size_t bytes = 0;
  for (const at::Tensor& parameter : parameters_) bytes += room(parameter, type_of(parameter));
  std::shared_ptr<std::byte> block;
  try {
    block = memory_->allocate(bytes);
  } catch (const Error& error) {
    log(LogLevel::warning, "rank {}: gradients are not reduced in place. {}", runtime.topology().rank,
        error.what());
  }
  if (!block) return;
  places_.resize(parameters_.size());
  std::byte* place = block.get();
  for (const std::size_t index : order_of(seen_)) {
    const at::Tensor& parameter = parameters_[index];
    const at::TensorOptions options(type_of(parameter));
    auto keep = [block](void*) {};
    places_[index] = parameter.is_non_overlapping_and_dense()
                         ? at::from_blob(place, parameter.sizes(), parameter.strides(), keep, options)
                         : at::from_blob(place, parameter.sizes(), keep, options);
    place += room(parameter, type_of(parameter));
  }
}

// Its storage is this place's alone.
bool GradientWindow::is_free(std::size_t index) const {
  const at::Tensor& place = places_[index];
  return place.use_count() == 1 && place.storage().use_count() == 1;
}

at::Tensor GradientWindow::place(std::size_t index, const at::Tensor& gradient, double factor) {
  const bool has_place = !places_.empty();
  if (has_place) {
    const at::Tensor& place = places_[index];
    const bool same_kind = place.scalar_type() == gradient.scalar_type() && place.sizes() == gradient.sizes();
    if (!same_kind) fits_ = false;
    const bool there = gradient.const_data_ptr() == place.const_data_ptr();
    if (same_kind && !there && !gradient.requires_grad() && is_free(index)) {
      return factor == 1.0 ? place.copy_(gradient) : place.copy_(times(gradient, factor));
    }
  }
  if (factor != 1.0) gradient.copy_(times(gradient, factor));
  return gradient;
}

at::Tensor GradientWindow::zeros(std::size_t index) {
  const at::Tensor& parameter = parameters_[index];
  const at::ScalarType type = type_of(parameter);
  if (places_.empty() || !is_free(index) || places_[index].scalar_type() != type)
    return at::zeros_like(parameter, parameter.options().dtype(type));
  return places_[index].zero_();
}

}  // namespace rueda
