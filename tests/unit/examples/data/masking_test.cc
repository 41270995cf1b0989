// SPDX-License-Identifier: Apache-2.0
// Which tokens are hidden: how many, by what, and that only seed and sample decide.
#include "examples/lib/data/masking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::Each;
using testing::ElementsAre;

class Masking : public testing::Test {
 protected:
  Masking() {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 5; i < 1000; ++i) vocabulary += "w" + std::to_string(i) + "\n";
    tokenizer_.emplace(WordPieceTokenizer::from_file(scratch_.write("vocab.txt", vocabulary)));
  }

  std::vector<std::int32_t> window(std::size_t words) const {
    std::vector<std::int32_t> ids = {2};
    for (std::size_t i = 0; i < words; ++i) ids.push_back(static_cast<std::int32_t>(5 + i % 900));
    ids.push_back(3);
    return ids;
  }

  static std::int64_t labelled(const MaskedWindow& window) {
    return std::ranges::count_if(window.labels, [](std::int32_t label) { return label != kNoLabel; });
  }

  ScratchFolder scratch_;
  std::optional<WordPieceTokenizer> tokenizer_;
};

TEST_F(Masking, IsDecidedBySeedAndSampleAlone) {
  const auto ids = window(100);
  const MaskedWindow first = mask(ids, *tokenizer_, 7, 3);
  const MaskedWindow again = mask(ids, *tokenizer_, 7, 3);
  EXPECT_EQ(first.input_ids, again.input_ids);
  EXPECT_EQ(first.labels, again.labels);
  EXPECT_NE(mask(ids, *tokenizer_, 7, 4).labels, first.labels);
  EXPECT_NE(mask(ids, *tokenizer_, 8, 3).labels, first.labels);
}

TEST_F(Masking, IsTheSameForAllTime) {  // summaries of other versions stay comparable
  const MaskedWindow masked = mask(window(10), *tokenizer_, 1, 0, 0.3);
  EXPECT_THAT(masked.labels, ElementsAre(-100, 5, -100, -100, 8, -100, -100, -100, -100, 13, -100, -100));
}

TEST_F(Masking, HidesTheShareInBertsProportions) {
  std::int64_t total = 0, masks = 0, same = 0, others = 0;
  std::vector<std::int64_t> at(102);
  for (std::uint64_t sample = 0; sample < 2000; ++sample) {
    const auto ids = window(100);
    const MaskedWindow masked = mask(ids, *tokenizer_, 1, sample);
    EXPECT_EQ(labelled(masked), 15);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (masked.labels[i] == kNoLabel) {
        EXPECT_EQ(masked.input_ids[i], ids[i]);
        continue;
      }
      EXPECT_EQ(masked.labels[i], ids[i]);
      ++total, ++at[i];
      const std::int32_t now = masked.input_ids[i];
      if (now == tokenizer_->mask_id())
        ++masks;
      else if (now == ids[i])
        ++same;
      else
        ++others;
      EXPECT_TRUE(now == tokenizer_->mask_id() || is_maskable(now, *tokenizer_));
    }
  }
  EXPECT_NEAR(static_cast<double>(masks) / static_cast<double>(total), 0.8, 0.01);
  EXPECT_NEAR(static_cast<double>(same) / static_cast<double>(total), 0.1, 0.01);
  EXPECT_NEAR(static_cast<double>(others) / static_cast<double>(total), 0.1, 0.01);
  EXPECT_EQ(at.front(), 0);
  EXPECT_EQ(at.back(), 0);
  for (std::size_t i = 1; i + 1 < at.size(); ++i) EXPECT_NEAR(static_cast<double>(at[i]), 300, 90);
}

TEST_F(Masking, ShortWindowsHaveOneAndSpecialTokensNone) {
  EXPECT_EQ(labelled(mask(window(1), *tokenizer_, 1, 0)), 1);
  const std::vector<std::int32_t> special = {2, 1, 4, 0, 3};
  const MaskedWindow masked = mask(special, *tokenizer_, 1, 0);
  EXPECT_EQ(masked.input_ids, special);
  EXPECT_THAT(masked.labels, Each(kNoLabel));
  EXPECT_TRUE(mask({}, *tokenizer_, 1, 0).input_ids.empty());
}

TEST_F(Masking, AVocabularyOfSpecialTokensAloneIsNoEndlessSearch) {
  const auto tokenizer =
      WordPieceTokenizer::from_file(scratch_.write("few.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"));
  for (std::uint64_t sample = 0; sample < 100; ++sample)
    EXPECT_EQ(labelled(mask(std::vector<std::int32_t>{2, 9, 3}, tokenizer, 1, sample)), 1);
}

TEST(PadMasked, ToTheLongest) {
  const std::vector<MaskedWindow> windows = {{{2, 8, 3}, {kNoLabel, 7, kNoLabel}},
                                             {{2, 3}, {kNoLabel, kNoLabel}}};
  const LmBatch batch = pad(windows, 0);
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.columns, 3);
  EXPECT_THAT(batch.input_ids, ElementsAre(2, 8, 3, 2, 3, 0));
  EXPECT_THAT(batch.labels, ElementsAre(-100, 7, -100, -100, -100, -100));
  EXPECT_THAT(batch.lengths, ElementsAre(3, 2));
}

}  // namespace
}  // namespace rueda::examples
