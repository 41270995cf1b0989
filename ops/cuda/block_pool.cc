// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/block_pool.h"

#include <fmt/format.h>

#include <bit>
#include <new>
#include <utility>

#include "core/engine/work.h"

namespace rueda {

BlockPool::Block BlockPool::take(std::string_view what, std::size_t bytes) {
  constexpr std::size_t kLeast = 64 << 10;
  auto best = blocks_.end();
  for (auto each = blocks_.begin(); each != blocks_.end(); ++each) {
    if (each->block.bytes < bytes || (each->behind && !each->behind->passed())) continue;
    if (best == blocks_.end() || each->block.bytes < best->block.bytes) best = each;
  }
  if (best != blocks_.end()) {
    Block block = std::move(best->block);
    blocks_.erase(best);
    return block;
  }
  const std::size_t rounded = std::bit_ceil(std::max(bytes, kLeast));
  for (const std::size_t size : {rounded, bytes}) {
    try {
      return {make_(size), size};
    } catch (const std::bad_alloc&) {
      // Frees all blocks that nobody uses, to make room.
      std::erase_if(blocks_, [](const Used& each) { return !each.behind || each.behind->passed(); });
    }
  }
  throw WorkFailure{fmt::format("it has no memory for {}, {} bytes", what, bytes)};
}

void BlockPool::give_back(Block block, std::shared_ptr<const Fence> behind) {
  blocks_.push_back({std::move(block), std::move(behind)});
}

}  // namespace rueda
