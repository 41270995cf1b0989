// SPDX-License-Identifier: Apache-2.0
// The memory of the host that a fake device may copy from, and to, while the host goes on.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace rueda {

// Purpose: knows which blocks it has given. One a process; any thread.
class FakePinnedMemory final : public c10::Allocator {
 public:
  static FakePinnedMemory& instance() {
    static FakePinnedMemory one;
    return one;
  }
  c10::DataPtr allocate(std::size_t bytes) override {
    auto block = std::make_unique<c10::DataPtr>(c10::GetCPUAllocator()->allocate(bytes));
    void* data = block->get();
    const std::lock_guard lock(mutex_);
    blocks_.insert(data);
    return {data, block.release(), &give_back, c10::Device(c10::kCPU)};
  }
  // Whether a block begins there.
  bool has(const void* data) {
    const std::lock_guard lock(mutex_);
    return blocks_.contains(data);
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void give_back(void* kept) {
    const std::unique_ptr<c10::DataPtr> block(static_cast<c10::DataPtr*>(kept));
    const std::lock_guard lock(instance().mutex_);
    instance().blocks_.erase(block->get());
  }

  std::mutex mutex_;
  std::set<const void*> blocks_;
};

}  // namespace rueda
