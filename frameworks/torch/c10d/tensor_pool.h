// SPDX-License-Identifier: Apache-2.0
// Memory for tensors that FSDP asks for in every step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/engine/runtime.h"

namespace rueda {

// Purpose: gives tensors in memory that the ranks of a host share, and keeps the memory of those that are
// gone for the next ones of the same size: the first touch of a page takes longer than its transfer. Any
// thread; tensors may outlive it.
class TensorPool {
 public:
  // One dimension, not initialised. Throws BackendError if there is too little memory.
  at::Tensor allocate(Runtime& runtime, std::int64_t elements, at::ScalarType type);

 private:
  struct Free {
    std::mutex mutex;
    std::map<std::size_t, std::vector<std::shared_ptr<std::byte>>> blocks;  // by size
  };
  std::shared_ptr<Free> free_ = std::make_shared<Free>();
};

}  // namespace rueda
