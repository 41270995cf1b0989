// SPDX-License-Identifier: Apache-2.0
// Windows of long documents: which are trained on, what augmentation changes, and what it must not.
#include "examples/lib/data/nq_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int32_t kFirstWord = 5;

// Words w0, w1, ... are one piece each: piece i of a document of n is token 5 + i % 1000.
class NqFeatures : public testing::Test {
 protected:
  NqFeatures() {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 0; i < 1000; ++i) vocabulary += "w" + std::to_string(i) + "\n";
    tokenizer_.emplace(WordPieceTokenizer::from_file(scratch_.write("vocab.txt", vocabulary)));
    settings_.max_length = 20;
    settings_.stride = 4;
  }

  // A question of 2 words and a document of `words`.
  void add(int words, AnswerType type, int begin, int end) {
    NqExample example{std::to_string(texts_++), "w1 w2", "", {{type, {begin, end}}}};
    for (int i = 0; i < words; ++i) example.document += (i > 0 ? " w" : "w") + std::to_string(i % 1000);
    examples_.push_back(std::move(example));
  }

  const NqWindows& windows() {
    windows_.reset();
    corpus_.emplace(NqCorpus::open(scratch_.write("nq.jsonl", lines()), *tokenizer_, 8, TokenCache::none()));
    windows_ = std::make_unique<NqWindows>(*corpus_, *tokenizer_, settings_, 0, corpus_->size());
    return *windows_;
  }

  std::string lines() const {
    std::string text;
    for (const NqExample& one : examples_) {
      const auto& [type, span] = one.annotations[0];
      const std::string tokens = "{\"start_token\": " + std::to_string(span.begin) +
                                 ", \"end_token\": " + std::to_string(span.end) + "}";
      const bool is_short = type == AnswerType::short_answer, none = type == AnswerType::unknown;
      text += "{\"example_id\": " + one.id + ", \"question_text\": \"" + one.question +
              "\", \"document_text\": \"" + one.document + "\", \"annotations\": [{\"long_answer\": " +
              (none ? "{\"start_token\": -1, \"end_token\": -1}" : tokens) + ", \"short_answers\": [" +
              (is_short ? tokens : "") + "], \"yes_no_answer\": \"" +
              (type == AnswerType::yes ? "YES" : "NONE") + "\"}]}\n";
    }
    return text;
  }

  ScratchFolder scratch_;
  std::optional<WordPieceTokenizer> tokenizer_;
  NqSettings settings_;
  std::vector<NqExample> examples_;
  std::optional<NqCorpus> corpus_;
  std::unique_ptr<NqWindows> windows_;
  int texts_ = 0;
};

TEST_F(NqFeatures, AWindowIsQuestionAndContext) {
  add(6, AnswerType::short_answer, 2, 4);
  const NqFeature made = windows().plain_feature({0, 0});
  EXPECT_THAT(made.feature.input_ids, ElementsAre(2, 6, 7, 3, 5, 6, 7, 8, 9, 10, 3));
  EXPECT_THAT(made.feature.token_types, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(made.feature.start, 6);
  EXPECT_EQ(made.feature.end, 7);
  EXPECT_EQ(made.type, AnswerType::short_answer);
  EXPECT_EQ(made.feature.offsets.at(2), std::pair(2, 3));
}

TEST_F(NqFeatures, EvaluationReadsEveryPieceAndWholeExamples) {
  add(100, AnswerType::short_answer, 50, 52);  // room 15, so a step of 11
  add(3, AnswerType::unknown, 0, 0);
  add(15, AnswerType::unknown, 0, 0);
  const auto batches = windows().evaluation_batches(3);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].size(), 9U) << "an example of many windows is not cut";
  EXPECT_EQ(batches[1].size(), 2U);
  std::set<std::int32_t> seen;
  int with_answer = 0;
  for (const NqWindow& window : batches[0]) {
    const NqFeature made = windows_->plain_feature(window);
    EXPECT_EQ(made.feature.input_ids.size(), 20U) << "the last one, too: none that is trained on is shorter";
    for (const auto& [begin, end] : made.feature.offsets) seen.insert(begin);
    if (made.type != AnswerType::unknown) ++with_answer;
  }
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_GE(with_answer, 1);
}

TEST_F(NqFeatures, WindowsWithoutAnswerAreKeptAtTheirShare) {
  for (int i = 0; i < 50; ++i) add(1100, AnswerType::unknown, 0, 0);  // 100 windows each
  settings_.unknown_share = 0.02;
  const auto some = windows().size();
  EXPECT_NEAR(static_cast<double>(some), 100, 40);
  EXPECT_EQ(windows().size(), some);
  settings_.unknown_share = 0;
  EXPECT_EQ(windows().size(), 0U);
  settings_.unknown_share = 1;
  EXPECT_EQ(windows().size(), 5000U);
  add(1100, AnswerType::short_answer, 30, 31);
  settings_.unknown_share = 0;
  EXPECT_GE(windows().size(), 1U);
}

TEST_F(NqFeatures, AugmentationMovesTheAnswerAndLosesNothing) {
  add(300, AnswerType::short_answer, 100, 103);
  settings_.unknown_share = 0;
  settings_.question_dropout = 0.3;
  const NqWindows& made = windows();
  std::set<std::int32_t> starts;
  int masked = 0, words = 0;
  for (std::uint64_t position = 0; position < 500; ++position) {
    const NqFeature one = made.training_feature(0, position);
    const auto& ids = one.feature.input_ids;
    ASSERT_EQ(one.type, AnswerType::short_answer);
    ASSERT_EQ(ids.size(), 20U);
    ASSERT_EQ(ids[static_cast<std::size_t>(one.feature.start)], kFirstWord + 100);
    ASSERT_EQ(ids[static_cast<std::size_t>(one.feature.end)], kFirstWord + 102);
    starts.insert(one.feature.start);
    const auto now = std::count(ids.begin() + 1, ids.begin() + 3, tokenizer_->mask_id());
    ASSERT_LT(now, 2) << "a word of the question is left";
    masked += static_cast<int>(now);
    words += 2;
  }
  EXPECT_EQ(starts.size(), 13U) << "every position in the window";
  // Of two words both are drawn with 0.09, and then neither is masked.
  EXPECT_NEAR(static_cast<double>(masked) / words, 0.3 - 0.09, 0.05);
  EXPECT_EQ(made.training_feature(0, 7).feature.input_ids, made.training_feature(0, 7).feature.input_ids);
}

TEST_F(NqFeatures, AugmentationOfUnknownWindowsStaysInTheDocumentAndTellsTheTruth) {
  add(300, AnswerType::yes, 100, 110);
  add(5, AnswerType::unknown, 0, 0);
  settings_.unknown_share = 1;
  const NqWindows& made = windows();
  for (std::uint64_t position = 0; position < 2000; ++position) {
    const NqFeature one = made.training_feature(position % made.size(), position);
    ASSERT_FALSE(one.feature.offsets.empty());
    if (one.feature.question == 1) {
      ASSERT_EQ(one.type, AnswerType::unknown);
      continue;
    }
    ASSERT_EQ(one.feature.offsets.size(), 15U);
    const auto first = one.feature.offsets.front().first, last = one.feature.offsets.back().second;
    ASSERT_LE(last, 300);
    const bool whole = first <= 100 && last >= 110;
    ASSERT_EQ(one.type, whole ? AnswerType::yes : AnswerType::unknown);
    ASSERT_EQ(one.feature.start + one.feature.end == 0, !whole);
  }
}

TEST_F(NqFeatures, WithoutAugmentationAWindowIsPlain) {
  add(300, AnswerType::short_answer, 100, 103);
  settings_.move_windows = false;
  settings_.question_dropout = 0;
  settings_.unknown_share = 0;
  const NqWindows& made = windows();
  EXPECT_EQ(made.training_feature(0, 1).feature.input_ids, made.training_feature(0, 2).feature.input_ids);
}

TEST_F(NqFeatures, AnAnswerLongerThanAnyWindowIsNeverThere) {
  add(300, AnswerType::long_answer, 0, 200);
  settings_.unknown_share = 1;
  const NqWindows& made = windows();
  for (std::size_t i = 0; i < made.size(); ++i)
    EXPECT_EQ(made.training_feature(i, i).type, AnswerType::unknown);
}

TEST_F(NqFeatures, SettingsOutOfRangeAreNamed) {
  add(30, AnswerType::unknown, 0, 0);
  const auto error = [&] { return error_message([&] { windows(); }); };
  settings_.stride = 15;
  EXPECT_THAT(error(),
              HasSubstr("--max-length 20 leaves 15 pieces of context beside the question of example 0"));
  settings_.stride = 4;
  settings_.unknown_share = 1.5;
  EXPECT_THAT(error(), HasSubstr("unknown_share 1.5"));
}

TEST_F(NqFeatures, PaddedBatchesHaveTypes) {
  add(6, AnswerType::short_answer, 2, 4);
  add(3, AnswerType::unknown, 0, 0);
  const NqWindows& made = windows();
  const std::vector<NqFeature> rows = {made.plain_feature({0, 0}), made.plain_feature({1, 0})};
  const PaddedBatch batch = pad(rows, 0);
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.columns, 11);
  EXPECT_THAT(batch.answer_types, ElementsAre(0, 4));
  EXPECT_THAT(batch.starts, ElementsAre(6, 0));
  EXPECT_THAT(batch.lengths, ElementsAre(11, 8));
}

}  // namespace
}  // namespace rueda::examples
