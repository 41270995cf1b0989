// SPDX-License-Identifier: Apache-2.0
#include "ops/hierarchy/regions.h"

#include <algorithm>
#include <utility>

#include "ops/shm/staged_work.h"

namespace rueda {

Run common(Run a, Run b) {
  const std::size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

Regions::Regions(std::vector<std::size_t> lengths, std::size_t piece, std::size_t slices)
    : lengths_(std::move(lengths)), piece_(piece), slices_(slices), longest_(std::ranges::max(lengths_)) {}

std::size_t Regions::piece_for(std::size_t chunk_bytes, std::size_t runs, std::size_t longest) {
  constexpr std::size_t kLine = 64;
  std::size_t piece = std::max(chunk_bytes / runs / kLine, std::size_t{1}) * kLine;
  while (longest / piece > StagedWork::kMostChunks / 2 && 2 * piece * runs <= SegmentContents::kBufferBytes)
    piece *= 2;
  return std::min(piece, std::max((longest + kLine - 1) / kLine, std::size_t{1}) * kLine);
}

Run Regions::part(std::size_t chunk, std::size_t slice, std::size_t run) const {
  const Run in_piece = even_part(piece_, slice, slices_);
  const std::size_t begin = chunk * piece_;
  return {std::min(begin + in_piece.begin, lengths_[run]), std::min(begin + in_piece.end, lengths_[run])};
}

std::vector<std::size_t> Regions::offsets(std::size_t chunk, std::size_t slice) const {
  std::vector<std::size_t> offsets{even_part(piece_, slice, slices_).begin * lengths_.size()};
  for (std::size_t run = 0; run < lengths_.size(); ++run)
    offsets.push_back(offsets.back() + part(chunk, slice, run).size());
  return offsets;
}

}  // namespace rueda
