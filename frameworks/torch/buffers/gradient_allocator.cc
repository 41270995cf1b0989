// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/buffers/gradient_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/base/host_buffer.h"

namespace rueda {
namespace {

// The memories that serve a thread, in the order in which they came.
thread_local std::vector<std::weak_ptr<GradientAllocator>> serving;

// Purpose: the blocks that tensors have, of all GradientAllocators. One for the process, never destroyed:
// tensors may go after everything else. Guarded by its mutex.
class Taken {
 public:
  struct Owner {
    std::shared_ptr<std::byte> block;
    std::weak_ptr<GradientAllocator> memory;
    std::size_t bytes;
  };
  static Taken& instance() {
    static auto& taken = *new Taken;
    return taken;
  }
  void add(Owner owner) {
    std::lock_guard lock(mutex_);
    void* const memory = owner.block.get();
    owners_.emplace(memory, std::move(owner));
  }
  bool is_of(const void* block, const GradientAllocator& memory) {
    std::lock_guard lock(mutex_);
    const auto found = owners_.find(block);
    return found != owners_.end() && found->second.memory.lock().get() == &memory;
  }
  // Empty when it is not one of them.
  std::optional<Owner> remove(void* block) {
    std::lock_guard lock(mutex_);
    const auto found = owners_.extract(block);
    return found.empty() ? std::nullopt : std::optional(std::move(found.mapped()));
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, Owner> owners_;
};

// Purpose: torch's allocator of CPU memory with gradients in front of it. Installed once, never destroyed.
class CpuAllocator final : public c10::Allocator {
 public:
  static void install() {
    static std::once_flag installed;
    std::call_once(installed, [] {
      next_ = c10::GetCPUAllocator();
      c10::SetCPUAllocator(new CpuAllocator);
    });
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    if (!serving.empty() && torch::autograd::get_current_graph_task_id() >= 0) {
      for (const std::weak_ptr<GradientAllocator>& each : serving) {
        const std::shared_ptr<GradientAllocator> memory = each.lock();
        void* const block = memory ? memory->take(bytes) : nullptr;
        if (block != nullptr) return {block, block, &free_any, c10::Device(c10::kCPU)};
      }
    }
    return next().allocate(bytes);
  }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return data.get_deleter() == &free_any ? data.get() == data.get_context()
                                           : next().is_simple_data_ptr(data);
  }
  c10::DeleterFnPtr raw_deleter() const override { return next().raw_deleter() ? &free_any : nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    next().copy_data(to, from, bytes);
  }

 private:
  static c10::Allocator& next() { return *next_; }
  static void free_any(void* memory) {
    if (!GradientAllocator::give_back(memory)) next().raw_deallocate(memory);
  }

  // Other threads come here by torch's pointer to this allocator, which orders nothing.
  static inline std::atomic<c10::Allocator*> next_ = nullptr;
};

}  // namespace

GradientAllocator::GradientAllocator(std::shared_ptr<SymmetricMemory> memory) : memory_(std::move(memory)) {
  CpuAllocator::install();
}

bool GradientAllocator::add(const std::vector<std::size_t>& sizes) {
  std::size_t total = 0;
  for (const std::size_t bytes : sizes) total += HostBuffer::whole_lines(bytes);
  const std::shared_ptr<std::byte> all = memory_->allocate(total);
  if (!all) return false;
  bytes_ += total;
  std::lock_guard lock(mutex_);
  std::byte* memory = all.get();
  for (const std::size_t bytes : sizes) {
    if (bytes > 0) free_[bytes].push_back(Block(all, memory));
    memory += HostBuffer::whole_lines(bytes);
  }
  return true;
}

void GradientAllocator::serve_this_thread() {
  const std::weak_ptr<GradientAllocator> self = weak_from_this();
  auto is_self = [&](const auto& each) { return !each.owner_before(self) && !self.owner_before(each); };
  if (std::ranges::any_of(serving, is_self)) return;
  std::erase_if(serving, [](const auto& each) { return each.expired(); });
  serving.push_back(self);
}

void* GradientAllocator::take(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = free_.find(bytes);
  if (found == free_.end() || found->second.empty()) return nullptr;
  Block block = std::move(found->second.back());
  found->second.pop_back();
  void* const memory = block.get();
  Taken::instance().add({std::move(block), weak_from_this(), bytes});
  return memory;
}

bool GradientAllocator::gave(const void* block) const { return Taken::instance().is_of(block, *this); }

bool GradientAllocator::give_back(void* block) {
  std::optional<Taken::Owner> owner = Taken::instance().remove(block);
  if (!owner) return false;
  if (const std::shared_ptr<GradientAllocator> home = owner->memory.lock()) {
    std::lock_guard lock(home->mutex_);
    home->free_[owner->bytes].push_back(std::move(owner->block));
  }
  return true;
}

}  // namespace rueda
