// SPDX-License-Identifier: Apache-2.0
// Memory for the outputs that operations make themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/host_buffer.h"

namespace rueda {

// Purpose: gives memory for outputs, and keeps released blocks for later outputs. Touching fresh pages takes
// several times as long as moving the data there. The system gets back a block that the next kMostUnused
// outputs do not use. It also gets the oldest blocks beyond `most` bytes, and all blocks at shutdown or when
// memory is short. One pool for the process, used by any thread; blocks may outlive it.
class OutputPool {
 public:
  static constexpr std::size_t kLeast = std::size_t{64} << 10;  // bytes that are worth keeping
  static constexpr std::size_t kMost = std::size_t{256} << 20;
  static constexpr std::size_t kMostBlocks = 64;
  static constexpr int kMostUnused = 64;

  static OutputPool& of_process();

  explicit OutputPool(std::size_t most = kMost) : kept_(std::make_shared<Kept>(most)) {}

  // Not initialised, at the start of a line of cache. Throws std::bad_alloc.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);
  std::size_t bytes_kept() const;
  void drop_kept();

 private:
  // Guarded by its mutex.
  struct Kept {
    struct Block {
      HostBuffer memory;
      std::uint64_t since;  // outputs
    };
    explicit Kept(std::size_t most) : most(most) { blocks.reserve(kMostBlocks); }
    // One of that size, or an empty one.
    HostBuffer take(std::size_t size);
    void put(HostBuffer memory) noexcept;
    // The oldest, if it is older than so many outputs, or an empty one.
    HostBuffer older_than(std::uint64_t most_outputs);
    HostBuffer remove(std::vector<Block>::iterator block);

    mutable std::mutex mutex;
    const std::size_t most;
    std::vector<Block> blocks;  // the oldest first
    std::size_t bytes = 0;
    std::uint64_t outputs = 0;
  };
  struct Lease;

  std::shared_ptr<Kept> kept_;
};

}  // namespace rueda
