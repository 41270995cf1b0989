// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_memory.h"

namespace rueda {

NcclMemory::Given::~Given() {
  while (!dropped.empty()) free_dropped(dropped.begin()->first);
}

void NcclMemory::Given::free_dropped(int device) {
  std::vector<std::shared_ptr<void>> blocks_of_device;
  {
    std::lock_guard lock(mutex);
    const auto found = dropped.find(device);
    if (found == dropped.end()) return;
    blocks_of_device = std::move(found->second);
    dropped.erase(found);
  }
  devices->at(device).synchronize();
  blocks_of_device.clear();
}

std::shared_ptr<std::byte> NcclMemory::allocate(int number, std::size_t bytes) {
  given_->free_dropped(number);
  Device& device = devices_->at(number);
  const NcclLibrary& nccl = nccl_();
  void* block = nullptr;
  if (nccl.problem.empty() && nccl.functions.mem_alloc != nullptr && nccl.functions.mem_free != nullptr) {
    device.as_current([&] {
      if (nccl.functions.mem_alloc(&block, bytes) != ncclSuccess) block = nullptr;
    });
  }
  if (block == nullptr) return device.memory(bytes);
  std::shared_ptr<void> owned(block, nccl.functions.mem_free);
  {
    std::lock_guard lock(given_->mutex);
    given_->blocks.insert(block);
  }
  auto drop = [given = given_, number, owned = std::move(owned)](std::byte* memory) mutable {
    std::lock_guard lock(given->mutex);
    given->blocks.erase(memory);
    given->dropped[number].push_back(std::move(owned));
  };
  return {static_cast<std::byte*>(block), std::move(drop)};
}

bool NcclMemory::gave(const void* memory) const {
  std::lock_guard lock(given_->mutex);
  return given_->blocks.contains(memory);
}

}  // namespace rueda
