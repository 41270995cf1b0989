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

#include "bench/rueda_bench/workload/buffer_memory.h"
#include "bench/rueda_bench/workload/start_line.h"
#include "core/engine/memory/symmetric_memory.h"
#include "ops/shm/store_policy.h"

namespace rueda::bench {

// Purpose: an allreduce of float32 by 2 or 4 ranks as loops over memory and words that are waited for, and
// nothing else: what ours comes to where making Works, looking for their tensors and ringing doorbells cost
// nothing. In the window (zero-copy) each rank reads its slice of all tensors and writes a sum into all of
// them, once, between two barriers. An ordinary tensor is seen by its owner alone,
// so whatever is summed elsewhere is visited six times, chunk by chunk: its owner copies it to shared memory;
// who adds reads it there and in a tensor of its own, and writes both; the owner copies it back. Both by the
// same inner loops as ours, through the cache or past it. On one rank, the main thread's; the same calls come
// on every rank, with a barrier before it is destroyed.
class BareLoop {
 public:
  // Brings what each rank says, in the order of ranks.
  using Gather = std::function<std::vector<std::string>(const std::string&)>;

  // Collective. Throws where the ranks share no memory.
  BareLoop(MemoryKind kind, std::size_t elements, std::size_t rank, SymmetricMemory* memory,
           const Gather& gather);
  // Writes a tensor anew.
  using Fill = std::function<void(std::byte*)>;
  // Of one allreduce, after `fill`.
  double seconds(const Fill& fill);

 private:
  static constexpr std::size_t kChunk = 64 << 10;                   // floats
  static constexpr std::size_t kBuffers = 2;                        // as ours
  static constexpr std::size_t kFromTheEnd = std::size_t{8} << 20;  // floats at most that are visited so

  // A chunk of this rank's tensor.
  struct Chunk {
    std::size_t number;
    std::size_t begin, end;  // floats
    std::size_t from, to;    // what this rank adds up of them
  };

  // Counts of a rank, which only grow.
  struct Words {
    alignas(64) std::atomic<std::uint64_t> arrived;
    std::atomic<std::int64_t> proposal;             // of when to begin
    alignas(64) std::atomic<std::uint64_t> packed;  // chunks
    alignas(64) std::atomic<std::uint64_t> added;
  };
  using Word = std::atomic<std::uint64_t> Words::*;

  // The memory that a rank shares with the others.
  struct Shown {
    std::shared_ptr<std::byte> memory;
    float* values;
    Words* words;
  };

  void reduce_in_place(TimedStores& stores);
  void reduce_staged(TimedStores& stores);
  Chunk chunk(std::size_t number) const;
  float* shown(std::size_t rank, const Chunk& chunk) const;
  float* ordinary() const;
  void pack(const Chunk& chunk, const TimedStores& stores);
  void add(const Chunk& chunk, bool streamed);
  void unpack(const Chunk& chunk);
  void sum(std::span<std::byte* const> slices, std::size_t elements, bool streamed) const;
  void barrier();
  std::int64_t agreed_start();
  void tell(Word word, std::uint64_t value);
  void await(Word word, std::uint64_t value) const;

  const bool in_place_;
  const std::size_t rank_;
  const std::size_t elements_;
  std::vector<Shown> all_;
  StartLine start_;
  std::shared_ptr<std::byte> ordinary_;  // this rank's tensor, unless it lies in the window
  int polls_ = 10'000;                   // before the core is given away
  std::uint64_t barriers_ = 0;
  std::uint64_t staged_ = 0;  // chunks
  StorePolicies stores_;
};

}  // namespace rueda::bench
