// SPDX-License-Identifier: Apache-2.0
// Made-up batches have the shapes and ranges of real ones, and depend on seed and position alone.
#include "examples/lib/data/dummy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <vector>

namespace rueda::examples {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::Lt;

const std::vector<std::uint64_t> kPositions = {5, 6, 7};

TEST(Dummy, WindowsHaveContextAnswersAndTypes) {
  const DummyShape shape{64, 100};
  std::vector<std::uint64_t> many(200);
  std::iota(many.begin(), many.end(), 0);
  const PaddedBatch batch = dummy_nq(shape, 1, many);
  EXPECT_EQ(batch.rows, 200);
  EXPECT_EQ(batch.input_ids.size(), 200U * 64);
  EXPECT_EQ(batch.token_types.size(), batch.input_ids.size());
  EXPECT_THAT(batch.input_ids, Each(AllOf(Ge(0), Lt(100))));
  EXPECT_THAT(batch.lengths, Each(64));
  std::set<std::int64_t> types(batch.answer_types.begin(), batch.answer_types.end());
  EXPECT_EQ(types, (std::set<std::int64_t>{0, 1, 2, 3, 4}));
  for (std::size_t row = 0; row < 200; ++row) {
    EXPECT_LE(batch.starts[row], batch.ends[row]);
    EXPECT_LT(batch.ends[row], 64);
    EXPECT_EQ(batch.starts[row] == 0, batch.answer_types[row] == 4);
  }
  EXPECT_TRUE(dummy_squad(shape, 1, many).answer_types.empty());
}

TEST(Dummy, MaskedWindowsHaveLabelsAtTheirShare) {
  const LmBatch batch = dummy_lm({100, 50}, 1, kPositions);
  EXPECT_EQ(batch.rows, 3);
  for (std::ptrdiff_t row = 0; row < 3; ++row) {
    const auto begin = batch.labels.begin() + row * 100;
    EXPECT_EQ(std::count(begin, begin + 100, kNoLabel), 85);
  }
}

TEST(Dummy, ARowIsDecidedBySeedAndPosition) {
  const DummyShape shape{16, 100};
  const PaddedBatch all = dummy_squad(shape, 1, kPositions);
  const PaddedBatch last = dummy_squad(shape, 1, std::vector<std::uint64_t>{7});
  EXPECT_TRUE(std::equal(last.input_ids.begin(), last.input_ids.end(), all.input_ids.end() - 16));
  EXPECT_EQ(last.starts[0], all.starts[2]);
  EXPECT_NE(dummy_squad(shape, 2, kPositions).input_ids, all.input_ids);
}

TEST(Dummy, RefusesWhatHasNoRoom) {
  EXPECT_THROW(dummy_squad({3, 100}, 1, kPositions), std::invalid_argument);
  EXPECT_THROW(dummy_lm({16, 0}, 1, kPositions), std::invalid_argument);
}

}  // namespace
}  // namespace rueda::examples
