// SPDX-License-Identifier: Apache-2.0
#include "core/engine/output_memory.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace rueda {
namespace {

// In steps of an eighth, so that outputs of slightly different lengths find each other's memory.
std::size_t size_class(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

// Purpose: a block in use; gives it back.
struct OutputMemory::Lease {
  Lease(std::shared_ptr<Kept> home, HostBuffer memory) : home(std::move(home)), memory(std::move(memory)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { home->put(std::move(memory)); }

  std::shared_ptr<Kept> home;
  HostBuffer memory;
};

OutputMemory& OutputMemory::of_process() {
  static OutputMemory memory;
  return memory;
}

std::shared_ptr<std::byte> OutputMemory::allocate(std::size_t bytes) {
  if (bytes < kLeast) {
    const auto own = std::make_shared<HostBuffer>(bytes);
    return {own, own->data()};
  }
  const std::size_t size = size_class(bytes);
  HostBuffer memory = kept_->take(size);
  if (memory.data() == nullptr) memory = HostBuffer(size);
  const auto lease = std::make_shared<Lease>(kept_, std::move(memory));
  return {lease, lease->memory.data()};
}

std::size_t OutputMemory::bytes_kept() const {
  const std::lock_guard lock(kept_->mutex);
  return kept_->bytes;
}

HostBuffer OutputMemory::Kept::take(std::size_t size) {
  const std::lock_guard lock(mutex);
  ++outputs;
  while (!blocks.empty() && outputs - blocks.front().since > kPatience) drop_oldest();
  // The last one: the likeliest to be in a cache.
  const auto found = std::ranges::find(blocks.rbegin(), blocks.rend(), size,
                                       [](const Block& block) { return block.memory.size(); });
  if (found == blocks.rend()) return {};
  HostBuffer memory = std::move(found->memory);
  blocks.erase(std::next(found).base());
  bytes -= size;
  return memory;
}

void OutputMemory::Kept::put(HostBuffer memory) noexcept {
  const std::lock_guard lock(mutex);
  if (memory.size() > most) return;
  if (blocks.size() == kMostBlocks) drop_oldest();
  bytes += memory.size();
  blocks.push_back({std::move(memory), outputs});
  while (bytes > most) drop_oldest();
}

void OutputMemory::Kept::drop_oldest() {
  bytes -= blocks.front().memory.size();
  blocks.erase(blocks.begin());
}

}  // namespace rueda
