// SPDX-License-Identifier: Apache-2.0
#include "core/engine/memory/output_pool.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "core/base/system/fork_guard.h"

namespace rueda {
namespace {

// In steps of an eighth, so that outputs of slightly different lengths find each other's memory.
std::size_t size_class(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 8;
  return std::max((bytes + step - 1) / step * step, bytes);  // what is too much stays so
}

}  // namespace

// Purpose: a block in use; gives it back.
struct OutputPool::Lease {
  Lease(std::shared_ptr<Kept> home, HostBuffer memory) : home(std::move(home)), memory(std::move(memory)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  // A forked child has no use for it, and may have been forked while somebody had the lock.
  ~Lease() {
    if (!is_forked_child()) home->put(std::move(memory));
  }

  std::shared_ptr<Kept> home;
  HostBuffer memory;
};

OutputPool& OutputPool::of_process() {
  static auto& memory = *new OutputPool;  // stays: a background thread may allocate while the process ends
  return memory;
}

std::shared_ptr<std::byte> OutputPool::allocate(std::size_t bytes) {
  if (bytes < kLeast) {
    const auto own = std::make_shared<HostBuffer>(bytes);
    return {own, own->data()};
  }
  const std::size_t size = size_class(bytes);
  HostBuffer memory = kept_->take(size);
  if (memory.data() == nullptr) {
    try {
      memory = HostBuffer(size);
    } catch (const std::bad_alloc&) {
      drop_kept();
      memory = HostBuffer(size);
    }
  }
  const auto lease = std::make_shared<Lease>(kept_, std::move(memory));
  return {lease, lease->memory.data()};
}

std::size_t OutputPool::bytes_kept() const {
  const std::lock_guard lock(kept_->mutex);
  return kept_->bytes;
}

void OutputPool::drop_kept() {
  while (kept_->older_than(0).data() != nullptr) continue;
}

// Blocks are freed by who gets them here, without the lock.
HostBuffer OutputPool::Kept::older_than(std::uint64_t most_outputs) {
  const std::lock_guard lock(mutex);
  if (blocks.empty() || outputs - blocks.front().since < most_outputs) return {};
  return remove(blocks.begin());
}

HostBuffer OutputPool::Kept::take(std::size_t size) {
  while (older_than(kMostUnused).data() != nullptr) continue;
  const std::lock_guard lock(mutex);
  ++outputs;
  // The last one: the likeliest to be in a cache.
  const auto found = std::ranges::find(blocks.rbegin(), blocks.rend(), size,
                                       [](const Block& block) { return block.memory.size(); });
  if (found == blocks.rend()) return {};
  return remove(std::next(found).base());
}

void OutputPool::Kept::put(HostBuffer memory) noexcept {
  if (memory.size() > most) return;
  for (;;) {
    HostBuffer dropped;  // after the lock
    const std::lock_guard lock(mutex);
    if (bytes + memory.size() <= most && blocks.size() < kMostBlocks) {
      bytes += memory.size();
      blocks.push_back({std::move(memory), outputs});
      return;
    }
    dropped = remove(blocks.begin());
  }
}

HostBuffer OutputPool::Kept::remove(std::vector<Block>::iterator block) {
  HostBuffer memory = std::move(block->memory);
  bytes -= memory.size();
  blocks.erase(block);
  return memory;
}

}  // namespace rueda
