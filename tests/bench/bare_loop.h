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
#include "ops/shm/store_choice.h"
#include "tests/bench/buffer_memory.h"

namespace rueda::bench {

// Purpose: an allreduce of float32 by 2 or 4 ranks as loops over memory alone, by ranks that begin together
// and then wait for nobody, so that its results mean nothing: what ours comes to where waiting, agreeing and
// telling cost nothing. In the window (zero-copy) each rank reads its slice of all tensors and writes a sum
// into all of them, once, through its cache or past it, by the same inner loop as ours. An ordinary tensor is
// seen by its owner alone, so whatever is summed elsewhere is visited six times: its owner copies it to
// shared memory; who adds reads it there and in a tensor of its own, and writes both; the owner copies it
// back. The less of two times: these loops one after the other, chunk by chunk; of 2 ranks also all of them
// in one loop, so that lines of one are on their way while another computes. On one rank, the main thread's;
// the same calls come on every rank, which meet before it is destroyed.
class BareLoop {
 public:
  // Brings what each rank says, in the order of ranks.
  using Gather = std::function<std::vector<std::string>(const std::string&)>;

  // Collective. Throws where the ranks share no memory.
  BareLoop(MemoryKind kind, std::size_t elements, std::size_t rank, TensorMemory* memory,
           const Gather& gather);
  // Of one allreduce, after this rank has written its tensor anew.
  double seconds();

 private:
  static constexpr std::size_t kChunk = 64 << 10;  // floats
  static constexpr std::size_t kBuffers = 2;       // as ours
  static constexpr std::size_t kShort = 16 << 10;  // of a chunk, where all is done in one loop

  // A chunk of this rank's tensor.
  struct Chunk {
    std::size_t number;
    std::size_t begin, end;  // floats
    std::size_t from, to;    // what this rank adds up of them
  };

  template <class Loops>
  double timed(Loops loops);
  void meet();
  void reduce_in_place();
  void one_after_the_other();
  void all_in_one_loop();
  Chunk chunk(std::size_t number, std::size_t size) const;
  float* shown(std::size_t rank, const Chunk& chunk, std::size_t size) const;
  float* ordinary() const;
  void pack(const Chunk& chunk);
  void add(const Chunk& chunk);
  void unpack(const Chunk& chunk);
  void sum(std::span<std::byte* const> places, std::size_t elements, bool streamed) const;

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
  std::shared_ptr<std::byte> ordinary_;  // this rank's tensor, unless it lies in the window
  std::uint64_t met_ = 0;
  StoreChoice stores_;  // in place
};

}  // namespace rueda::bench
