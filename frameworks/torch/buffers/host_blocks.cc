// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/buffers/host_blocks.h"

#include <ATen/ops/from_blob.h>

#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "frameworks/torch/buffers/pairwise_sum.h"

namespace rueda {
namespace {

// A rank that is alone on its host reduces with nobody in place.
bool has_neighbours(const Runtime& runtime) {
  return runtime.tensor_memory() && runtime.topology().local_size > 1;
}

}  // namespace

at::ScalarType gradient_type(const at::Tensor& parameter, bool sums) {
  return sums ? sum_type(parameter.scalar_type()) : parameter.scalar_type();
}

bool HostBlocks::contains(const at::Tensor& gradient) const {
  return blocks_ && memory_->contains(gradient.const_data_ptr(), gradient.nbytes());
}

at::Tensor HostBlocks::take(std::size_t index, at::ScalarType type) {
  const at::Tensor& parameter = parameters_[index];
  const std::size_t bytes = static_cast<std::size_t>(parameter.numel()) * c10::elementSize(type);
  if (!blocks_ || bytes == 0) return {};
  void* const block = blocks_->take(bytes);
  if (block == nullptr) {
    lacking_.push_back(bytes);
    return {};
  }
  const at::TensorOptions options(type);
  return parameter.is_non_overlapping_and_dense()
             ? at::from_blob(block, parameter.sizes(), parameter.strides(), GradientAllocator::give_back,
                             options)
             : at::from_blob(block, parameter.sizes(), GradientAllocator::give_back, options);
}

void HostBlocks::refill(Runtime& runtime) {
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

void HostBlocks::abandon() {
  blocks_ = nullptr;
  memory_ = nullptr;
  lacking_.clear();
}

// Bytes of each gradient.
std::vector<std::size_t> HostBlocks::sizes() const {
  std::vector<std::size_t> sizes;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const at::Tensor& parameter = parameters_[index];
    if (parameter.is_cuda()) continue;
    sizes.push_back(static_cast<std::size_t>(parameter.numel()) *
                    c10::elementSize(gradient_type(parameter, sums_)));
  }
  return sizes;
}

void HostBlocks::get_blocks(Runtime& runtime) {
  memory_ = runtime.tensor_memory();
  sizes_ = sizes();
  blocks_ = nullptr;
  if (!has_neighbours(runtime)) return;
  blocks_ = std::make_shared<GradientAllocator>(memory_);
  for (std::size_t bank = 0; blocks_ && bank < banks_; ++bank) {
    if (!add(sizes_, runtime.topology().rank)) blocks_ = nullptr;
  }
  most_ = blocks_ ? 2 * blocks_->bytes() : 0;
  serve_this_thread();  // the thread that steps mostly runs the passes, too
}

bool HostBlocks::add(const std::vector<std::size_t>& sizes, Rank rank) {
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

}  // namespace rueda
