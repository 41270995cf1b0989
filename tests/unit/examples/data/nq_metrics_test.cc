// SPDX-License-Identifier: Apache-2.0
// The answer chosen from the logits of many windows, and its score against several annotations.
#include "examples/lib/data/nq_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace rueda::examples {
namespace {

constexpr std::int32_t kShort = 0, kLong = 1, kYes = 2, kUnknown = 4;

// A window of [CLS] q [SEP], four pieces of the document from `begin` on, [SEP]; and all its logits 0.
struct Window {
  explicit Window(std::int32_t begin) {
    feature.input_ids.assign(8, 9);
    feature.context_begin = 3;
    for (std::int32_t i = begin; i < begin + 4; ++i) feature.offsets.emplace_back(i, i + 1);
  }
  NqLogits logits() const { return {{&feature, start, end}, types}; }
  Feature feature{};
  std::vector<float> start = std::vector<float>(8), end = std::vector<float>(8),
                     types = std::vector<float>(5);
};

TEST(NqPredict, TakesTheWindowThatSurpassesNoSpanMost) {
  Window first(0), second(100);
  first.start[4] = 9, first.end[5] = 9, first.start[0] = 8, first.end[0] = 8;  // 18 - 16
  first.types[kYes] = 1;
  second.start[3] = 2, second.end[6] = 3;  // 5 - 0
  second.types[kShort] = 1;
  const NqPrediction found = predict(std::vector{first.logits(), second.logits()});
  EXPECT_EQ(found.type, AnswerType::short_answer);
  EXPECT_EQ(found.begin, 100);
  EXPECT_EQ(found.end, 104);
  EXPECT_EQ(found.score, 5);
}

TEST(NqPredict, UnknownHasNoSpanAndEqualWindowsKeepTheFirst) {
  Window first(0), second(100);
  for (Window* window : {&first, &second}) window->start[3] = 1, window->end[3] = 1, window->types[kLong] = 1;
  EXPECT_EQ(predict(std::vector{first.logits(), second.logits()}).begin, 0);
  first.types[kUnknown] = 2;
  const NqPrediction found = predict(std::vector{first.logits()});
  EXPECT_EQ(found.type, AnswerType::unknown);
  EXPECT_EQ(found.end, 0);
  EXPECT_EQ(predict({}).type, AnswerType::unknown);
}

TEST(NqPredict, ADivergedModelGivesSomeAnswer) {
  Window window(0);
  for (float& logit : window.start) logit = std::nanf("");
  for (float& logit : window.end) logit = std::nanf("");
  EXPECT_NO_THROW(predict(std::vector{window.logits()}));
  window.types.pop_back();
  EXPECT_THROW(predict(std::vector{window.logits()}), std::invalid_argument);
}

class NqScores : public testing::Test {
 protected:
  // Words of two pieces each.
  NqScore of(const NqPrediction& prediction, std::vector<NqTarget> targets) const {
    NqTokens tokens;
    tokens.word_begin = word_begin_;
    tokens.targets = targets;
    return score(prediction, tokens);
  }
  static void expect(const NqScore& found, double type, double exact, double f1) {
    EXPECT_DOUBLE_EQ(found.type, type);
    EXPECT_DOUBLE_EQ(found.exact, exact);
    EXPECT_DOUBLE_EQ(found.f1, f1);
  }
  std::vector<std::int32_t> word_begin_ = {0, 2, 4, 6, 8, 10, 12};
  NqPrediction right_{AnswerType::short_answer, 4, 8, 1};
  NqPrediction nothing_;
};

TEST_F(NqScores, CompareWords) {
  expect(of(right_, {{kShort, 4, 8}}), 1, 1, 1);
  expect(of({AnswerType::short_answer, 5, 7, 1}, {{kShort, 4, 8}}), 1, 1, 1);
  expect(of({AnswerType::long_answer, 4, 6, 1}, {{kShort, 4, 8}}), 0, 0, 2.0 / 3);
  expect(of({AnswerType::short_answer, 0, 4, 1}, {{kShort, 4, 8}}), 1, 0, 0);
}

TEST_F(NqScores, NeedTwoAnnotationsOfSeveral) {
  const NqTarget none{kUnknown, 0, 0};
  expect(of(nothing_, {none}), 1, 1, 1);
  expect(of(right_, {none}), 0, 0, 0);
  expect(of(nothing_, {{kShort, 4, 8}}), 0, 0, 0);
  expect(of(nothing_, {none, none, none, none, {kShort, 4, 8}}), 1, 1, 1);
  expect(of(right_, {none, none, none, {kLong, 0, 12}, {kShort, 4, 8}}), 1, 1, 1);
  expect(of(nothing_, {none, none, none, {kLong, 0, 12}, {kShort, 4, 8}}), 0, 0, 0);
  expect(of(nothing_, {}), 1, 1, 1);
}

TEST_F(NqScores, MeanInPercent) {
  const NqScore mean = mean_score(std::vector<NqScore>{{1, 1, 1}, {1, 0, 0.5}});
  expect(mean, 100, 50, 75);
  expect(mean_score(std::vector<NqScore>{}), 0, 0, 0);
}

}  // namespace
}  // namespace rueda::examples
