// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/tensor_pool.h"

#include <ATen/ops/from_blob.h>

#include <utility>

namespace rueda {

at::Tensor TensorPool::allocate(Runtime& runtime, std::int64_t elements, at::ScalarType type) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * c10::elementSize(type);
  std::shared_ptr<std::byte> block;
  {
    const std::lock_guard lock(free_->mutex);
    std::vector<std::shared_ptr<std::byte>>& blocks = free_->blocks[bytes];
    if (!blocks.empty()) {
      block = std::move(blocks.back());
      blocks.pop_back();
    }
  }
  if (!block) block = runtime.allocate(bytes);
  std::byte* const memory = block.get();
  const auto give_back = [block = std::move(block), bytes, free = free_](void*) mutable {
    const std::lock_guard lock(free->mutex);
    free->blocks[bytes].push_back(std::move(block));
  };
  return at::from_blob(memory, {elements}, give_back, at::TensorOptions(type));
}

}  // namespace rueda
