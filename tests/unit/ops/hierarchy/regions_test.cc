// SPDX-License-Identifier: Apache-2.0
// Where what travels side by side lies in a chunk.
#include "ops/hierarchy/regions.h"

#include <gtest/gtest.h>

#include "ops/shm/staged_work.h"

namespace rueda {
namespace {

// Every byte of every run has one offset in one chunk, and no offset is used twice.
void check(const std::vector<std::size_t>& lengths, std::size_t piece, std::size_t slices) {
  const Regions regions(lengths, piece, slices);
  std::vector<std::size_t> seen(lengths.size(), 0);
  for (std::size_t chunk = 0; chunk < regions.chunks(); ++chunk) {
    std::size_t free = 0;  // where the chunk is not used yet
    for (std::size_t slice = 0; slice < slices; ++slice) {
      const std::vector<std::size_t> at = regions.offsets(chunk, slice);
      ASSERT_EQ(at.size(), lengths.size() + 1);
      ASSERT_GE(at.front(), free);
      for (std::size_t run = 0; run < lengths.size(); ++run) {
        const auto part = regions.part(chunk, slice, run);
        ASSERT_EQ(at[run + 1] - at[run], part.size());
        ASSERT_TRUE(part.begin == seen[run] || part.size() == 0);
        seen[run] += part.size();
      }
      free = at.back();
    }
    ASSERT_LE(free, piece * lengths.size());
  }
  EXPECT_EQ(seen, lengths);
}

TEST(Regions, HoldEveryByteOnce) {
  for (std::size_t piece : {64u, 192u, 4096u}) {
    for (std::size_t slices : {1u, 2u, 5u}) {
      check({1000}, piece, slices);
      check({1000, 1000, 996}, piece, slices);
      check({0, 5000, 1, 64, 63}, piece, slices);
      check({0, 0}, piece, slices);
    }
  }
}

TEST(Regions, PiecesAreLinesAndNoLongerThanNeeded) {
  EXPECT_EQ(Regions::piece_for(1 << 18, 4, 1 << 20), (1u << 18) / 4);
  EXPECT_EQ(Regions::piece_for(1 << 18, 3, 1 << 20) % 64, 0u);
  EXPECT_EQ(Regions::piece_for(1 << 18, 4, 100), 128u);
  EXPECT_EQ(Regions::piece_for(1 << 18, 4, 0), 64u);
  EXPECT_EQ(Regions::piece_for(64, 100, 1 << 20), 64u);
  const std::size_t much = std::size_t{1} << 36;  // more pieces of a line than a count can say
  EXPECT_LE(much / Regions::piece_for(64, 4, much), StagedWork::kMostChunks / 2);
}

TEST(Regions, CommonIsWhatIsInBoth) {
  const auto both = common({2, 8}, {5, 20}), none = common({2, 5}, {7, 9});
  EXPECT_EQ(both.begin, 5u);
  EXPECT_EQ(both.end, 8u);
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(common({7, 9}, {2, 5}).size(), 0u);
}

}  // namespace
}  // namespace rueda
