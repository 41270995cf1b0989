// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_memory.h"

namespace rueda {

std::shared_ptr<std::byte> NcclMemory::allocate(int number, std::size_t bytes) {
  Device& device = devices_->at(number);
  const NcclLibrary& nccl = nccl_();
  void* block = nullptr;
  if (nccl.problem.empty() && nccl.functions.mem_alloc != nullptr && nccl.functions.mem_free != nullptr) {
    device.as_current([&] {
      if (nccl.functions.mem_alloc(&block, bytes) != ncclSuccess) block = nullptr;
    });
  }
  if (block == nullptr) return device.memory(bytes);
  {
    std::lock_guard lock(given_->mutex);
    given_->blocks.insert(block);
  }
  // NCCL frees at once, unlike CUDA, and the program may have given the device what still reads it.
  auto free = [devices = devices_, number, given = given_,
               free = nccl.functions.mem_free](std::byte* memory) {
    devices->at(number).synchronize();
    {
      std::lock_guard lock(given->mutex);
      given->blocks.erase(memory);
    }
    free(memory);
  };
  return {static_cast<std::byte*>(block), std::move(free)};
}

bool NcclMemory::gave(const void* memory) const {
  std::lock_guard lock(given_->mutex);
  return given_->blocks.contains(memory);
}

}  // namespace rueda
