// SPDX-License-Identifier: Apache-2.0
// The least that an allreduce inside a host has to do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/engine/tensor_memory.h"
#include "tests/bench/buffer_memory.h"

namespace rueda::bench {

// Purpose: an allreduce of float32 by 2 or 4 ranks with nothing around its loops: no Plan, no Work. In the
// window (the zero-copy limit) each rank reads its slice of all tensors and writes the sum into all, once,
// between two barriers. Of ordinary tensors each copies to shared memory what others add, adds its slice so,
// and copies the rest out again, chunk by chunk. On one rank, the main thread's; the same calls come on every
// rank, which meet before it is destroyed.
class BareLoop {
 public:
  // Brings what each rank says, in the order of ranks.
  using Gather = std::function<std::vector<std::string>(const std::string&)>;

  // Collective. Throws where the ranks share no memory.
  BareLoop(MemoryKind kind, std::size_t elements, std::size_t rank, TensorMemory* memory,
           const Gather& gather);
  // Seconds of one allreduce, after this rank has written its tensor anew.
  double seconds();

 private:
  static constexpr std::size_t kChunk = 64 << 10;  // floats

  void meet();
  void reduce_in_place();
  void reduce_chunk(std::size_t begin, std::size_t buffer);
  static void sum(std::span<std::byte* const> places, std::size_t elements);

  // What a rank shows the others: floats, and its word for barriers.
  struct Shown {
    std::shared_ptr<std::byte> memory;
    float* values;
    std::atomic<std::uint64_t>* arrived;
  };

  const bool in_place_;
  const std::size_t rank_;
  const std::size_t elements_;
  std::vector<Shown> all_;
  std::vector<float> ordinary_;  // this rank's tensor, unless it lies in the window
  std::uint64_t met_ = 0;
};

}  // namespace rueda::bench
