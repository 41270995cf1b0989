// SPDX-License-Identifier: Apache-2.0
// The offsets in a chunk of runs that travel side by side. Pure arithmetic.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/hierarchy/slices.h"

namespace rueda {

// Purpose: several runs of bytes, of lengths that may differ, that go through chunks in step: a chunk holds
// the next `piece` bytes of each that has so many left. Its slices lie one behind the other; in a slice lies
// the same part of each run, in their order, without gaps. A plain value.
class Regions {
 public:
  Regions() = default;
  Regions(std::vector<std::size_t> lengths, std::size_t piece, std::size_t slices);

  // Divides `chunk_bytes` by `runs`, in whole cache lines. The piece is larger if a chunk counter would
  // overflow, and never larger than `longest` (in whole lines).
  static std::size_t piece_for(std::size_t chunk_bytes, std::size_t runs, std::size_t longest);

  std::size_t chunks() const { return (longest_ + piece_ - 1) / piece_; }
  // Which bytes of a run a slice holds.
  Run part(std::size_t chunk, std::size_t slice, std::size_t run) const;
  // The offset of each run's part in the chunk, then the end of the last one.
  std::vector<std::size_t> offsets(std::size_t chunk, std::size_t slice) const;

 private:
  std::vector<std::size_t> lengths_;
  std::size_t piece_ = 1;
  std::size_t slices_ = 1;
  std::size_t longest_ = 0;
};

// The bytes that are in both runs.
Run common(Run a, Run b);

}  // namespace rueda
