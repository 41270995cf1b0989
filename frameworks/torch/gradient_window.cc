// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_window.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>

#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "frameworks/torch/pairwise_sum.h"

namespace rueda {
namespace {

// 16-bit values in float32: torch would round the factor to their type.
at::Tensor times(const at::Tensor& values, double factor) {
  return values.element_size() == 2 ? values.to(at::kFloat).mul_(factor) : at::mul(values, factor);
}

// Where a rank is alone on its host there is nobody to reduce in place with.
bool has_neighbours(const Runtime& runtime) {
  return runtime.tensor_memory() && runtime.topology().local_size > 1;
}

}  // namespace

at::Tensor reducible(const at::Tensor& gradient) {
  if (gradient.layout() == at::kSparse) return gradient.coalesce().to_dense();
  if (gradient.layout() != at::kStrided) return gradient.to_dense();
  if (at::has_internal_overlap(gradient) == at::MemOverlap::Yes || gradient.is_cuda())
    return gradient.contiguous();
  return gradient;
}

void GradientWindow::end_step(Runtime& runtime) {
  const std::vector<std::size_t> lacking = std::exchange(lacking_, {});
  if (memory_ != runtime.tensor_memory() || sizes_ != sizes()) return get_blocks(runtime);
  if (!blocks_) return;
  std::size_t bytes = blocks_->bytes();
  std::vector<std::size_t> sizes;  // of those that may be added
  for (const std::size_t each : lacking) {
    if (bytes + each > most_) continue;
    sizes.push_back(each);
    bytes += each;
  }
  if (!sizes.empty() && !add(sizes, runtime.topology().rank)) most_ = blocks_->bytes();
}

at::ScalarType GradientWindow::type_of(const at::Tensor& parameter) const {
  return sums_ ? sum_type(parameter.scalar_type()) : parameter.scalar_type();
}

// Bytes of each gradient, for those in the host's memory.
std::vector<std::size_t> GradientWindow::sizes() const {
  std::vector<std::size_t> sizes;
  for (const at::Tensor& parameter : parameters_) {
    if (!parameter.is_cuda())
      sizes.push_back(static_cast<std::size_t>(parameter.numel()) * c10::elementSize(type_of(parameter)));
  }
  return sizes;
}

void GradientWindow::get_blocks(Runtime& runtime) {
  memory_ = runtime.tensor_memory();
  sizes_ = sizes();
  blocks_ = nullptr;
  if (!has_neighbours(runtime)) return;
  blocks_ = std::make_shared<GradientMemory>(memory_);
  for (int bank = 0; blocks_ && bank < banks_; ++bank) {
    if (!add(sizes_, runtime.topology().rank)) blocks_ = nullptr;
  }
  most_ = blocks_ ? 2 * blocks_->bytes() : 0;
  begin_pass();  // who steps mostly runs the passes, too
}

bool GradientWindow::add(const std::vector<std::size_t>& sizes, Rank rank) {
  try {
    if (blocks_->add(sizes)) return true;
    log(LogLevel::warning,
        "rank {}: not all gradients are reduced in place: the window has no room for {} bytes more. Raise "
        "RUEDA_WINDOW_LIMIT, or leave it unset.",
        rank, std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
    return false;
  } catch (const Error& error) {
    log(LogLevel::warning, "rank {}: not all gradients are reduced in place. {}", rank, error.what());
    return false;
  }
}

// Uninitialised; undefined where no block is free.
at::Tensor GradientWindow::in_a_block(std::size_t index, at::ScalarType type) {
  const at::Tensor& parameter = parameters_[index];
  const std::size_t bytes = static_cast<std::size_t>(parameter.numel()) * c10::elementSize(type);
  if (!blocks_ || bytes == 0 || parameter.is_cuda()) return {};
  void* const block = blocks_->take(bytes);
  if (block == nullptr) {
    lacking_.push_back(bytes);
    return {};
  }
  const at::TensorOptions options(type);
  return parameter.is_non_overlapping_and_dense()
             ? at::from_blob(block, parameter.sizes(), parameter.strides(), GradientMemory::give_back,
                             options)
             : at::from_blob(block, parameter.sizes(), GradientMemory::give_back, options);
}

at::Tensor GradientWindow::place(std::size_t index, const at::Tensor& gradient, double factor,
                                 std::size_t holders) {
  const bool there = blocks_ && memory_->contains(gradient.const_data_ptr(), gradient.nbytes());
  const bool alone = gradient.storage().use_count() <= holders;
  if (!(there && alone) && !gradient.requires_grad() && gradient.sizes() == parameters_[index].sizes()) {
    at::Tensor place = in_a_block(index, gradient.scalar_type());
    if (place.defined()) return place.copy_(factor == 1.0 ? gradient : times(gradient, factor));
  }
  at::Tensor own = alone || gradient.requires_grad() ? gradient : gradient.clone();
  if (factor != 1.0) own.copy_(times(own, factor));
  return own;
}

void GradientWindow::abandon_blocks() {
  blocks_ = nullptr;
  memory_ = nullptr;
  lacking_.clear();
}

at::Tensor GradientWindow::zeros(std::size_t index) {
  const at::Tensor& parameter = parameters_[index];
  const at::ScalarType type = type_of(parameter);
  at::Tensor place = in_a_block(index, type);
  return place.defined() ? place.zero_() : at::zeros_like(parameter, parameter.options().dtype(type));
}

}  // namespace rueda
