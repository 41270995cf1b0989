// SPDX-License-Identifier: Apache-2.0
// The least that an allreduce inside a host has to do.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/types.h"
#include "ops/kernels/kernels.h"

namespace rueda::bench {

// Where the tensor of a rank lies, and its word for barriers; in memory that all ranks reach.
struct ZeroCopyTensor {
  float* values;
  std::atomic<std::uint64_t>* arrived;
};

// Purpose: the zero-copy limit, of float32 and 2 or 4 ranks: between two barriers each rank reads its slice
// of all tensors and writes the sum into all, once, by the loop that Rueda has for it; no Plan, no Work, no
// tensors in pieces, nobody yields. On one rank, the main thread's; the same calls come on every rank.
class ZeroCopy {
 public:
  // `own` keeps this rank's memory.
  ZeroCopy(std::shared_ptr<std::byte> own, Rank rank, std::vector<ZeroCopyTensor> tensors,
           std::size_t elements);
  // Seconds of one pass, after this rank has written its tensor anew.
  double seconds();
  // Waits until nobody needs this rank's memory any more.
  void meet();

 private:
  const std::shared_ptr<std::byte> own_;
  const std::size_t rank_;
  const std::vector<ZeroCopyTensor> tensors_;
  const std::size_t elements_;
  const kernels::Kernels::SumEverywhere sum_;
  std::uint64_t met_ = 0;
};

}  // namespace rueda::bench
