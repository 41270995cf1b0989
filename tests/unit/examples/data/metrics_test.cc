// SPDX-License-Identifier: Apache-2.0
// Exact match, F1 and the best span on cases counted by hand; equality with the script is tested in
// tests/python.
#include "examples/lib/data/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

Score against(std::string_view prediction, const std::vector<std::string>& truths) {
  return score(prediction, truths);
}

TEST(Score, NormalizesAsTheScriptDoes) {
  EXPECT_EQ(against("The  Red-lamp!", {"a redlamp"}).exact, 1);
  EXPECT_EQ(against("ÉCOLE", {"école"}).exact, 1);
  EXPECT_EQ(against("the", {"an"}).exact, 1);
  EXPECT_EQ(against("theory", {"ory"}).exact, 0);
  EXPECT_EQ(against("the–end", {"–end"}).exact, 1);  // a dash beyond ASCII stays and ends the article
  EXPECT_EQ(against("the-end", {"end"}).exact, 0);   // the hyphen goes first: theend
  EXPECT_EQ(against("x\u00a0y", {"x y"}).exact, 1);
}

TEST(Score, F1CountsCommonWords) {
  EXPECT_EQ(against("red lamp", {"red lamp"}).f1, 1);
  EXPECT_DOUBLE_EQ(against("red red lamp", {"red table"}).f1, 2 * (1.0 / 3) * 0.5 / (1.0 / 3 + 0.5));
  EXPECT_EQ(against("lamp", {"table"}).f1, 0);
  EXPECT_EQ(against("", {"table"}).f1, 0);
  EXPECT_EQ(against("", {""}).exact, 1);
  EXPECT_EQ(against("", {""}).f1, 0);
}

TEST(Score, TakesTheBestTruth) {
  const Score best = against("red lamp", {"table", "the lamp", "red"});
  EXPECT_EQ(best.exact, 0);
  EXPECT_DOUBLE_EQ(best.f1, 2.0 / 3);
  EXPECT_THROW(against("x", {}), std::invalid_argument);
}

TEST(Score, WithoutATruthTheRightAnswerIsNone) {
  const auto against = [](std::string_view prediction, const std::vector<std::string>& truths) {
    return score_with_null(prediction, truths);
  };
  EXPECT_EQ(against("", {}).exact, 1);
  EXPECT_EQ(against("", {}).f1, 1);
  EXPECT_EQ(against("The!", {}).f1, 1);
  EXPECT_EQ(against("lamp", {}).exact, 0);
  EXPECT_EQ(against("lamp", {}).f1, 0);
  EXPECT_EQ(against("", {"the", "a lamp"}).f1, 0);
  EXPECT_EQ(against("lamp", {"the", "a lamp"}).exact, 1);
  EXPECT_EQ(against("", {"the"}).exact, 1);
}

TEST(Score, MeansOfQuestionsWithAndWithoutAnswer) {
  const SplitScore split =
      split_score(std::vector<Score>{{1, 1}, {0, 0.5}, {0, 0}, {1, 1}}, {true, true, false, false});
  EXPECT_EQ(split.all.f1, 62.5);
  EXPECT_EQ(split.has_answer.exact, 50);
  EXPECT_EQ(split.has_answer.f1, 75);
  EXPECT_EQ(split.no_answer.f1, 50);
  EXPECT_EQ(split.has_answer_total, 2U);
  EXPECT_EQ(split.no_answer_total, 2U);
}

TEST(Score, TheMeanOfSharesIsThatOfAll) {
  std::vector<Score> scores;
  for (int i = 0; i < 101; ++i) scores.push_back({i % 3 == 0 ? 1.0 : 0.0, 1.0 / (i + 1)});
  std::vector<Score> gathered(scores.begin(), scores.begin() + 40);
  gathered.insert(gathered.end(), scores.begin() + 40, scores.end());
  EXPECT_EQ(mean_score(gathered).f1, mean_score(scores).f1);
  EXPECT_DOUBLE_EQ(mean_score(scores).exact, 100 * 34.0 / 101);
  EXPECT_EQ(mean_score({}).f1, 0);
}

// A context of one-letter words, two windows over it: [CLS] q [SEP] a b c [SEP] and [CLS] q [SEP] c d [SEP].
class BestSpan : public testing::Test {
 protected:
  BestSpan() {
    first_ = {0, {2, 9, 3, 5, 6, 7, 3}, {}, 0, 0, 3, {{0, 1}, {2, 3}, {4, 5}}};
    second_ = {0, {2, 9, 3, 7, 8, 3}, {}, 0, 0, 3, {{4, 5}, {6, 7}}};
  }
  std::string best(std::size_t n_best = 20, std::int32_t max_answer_length = 30) const {
    const std::vector<WindowLogits> windows = {{&first_, start1_, end1_}, {&second_, start2_, end2_}};
    const auto span = best_span(windows, n_best, max_answer_length);
    return span ? std::string(span->in("a b c d")) : "";
  }
  std::string best_or_null(double threshold) const {
    const std::vector<WindowLogits> windows = {{&first_, start1_, end1_}, {&second_, start2_, end2_}};
    return std::string(span_or_null(windows, threshold).in("a b c d"));
  }

  Feature first_, second_;
  std::vector<float> start1_ = std::vector<float>(7), end1_ = std::vector<float>(7);
  std::vector<float> start2_ = std::vector<float>(8), end2_ = std::vector<float>(8);  // two of padding
};

TEST_F(BestSpan, TakesTheHighestSumOverAllWindows) {
  start1_[3] = 2;
  end1_[4] = 2;
  EXPECT_EQ(best(), "a b");
  start2_[3] = 2.5;
  end2_[4] = 2;
  EXPECT_EQ(best(), "c d");
}

TEST_F(BestSpan, StaysInsideTheContext) {
  start1_[0] = end1_[0] = 100;  // [CLS]
  start1_[1] = end1_[6] = 100;  // question and last [SEP]
  start2_[7] = end2_[7] = 100;  // padding
  start2_[4] = end2_[4] = 1;
  EXPECT_EQ(best(), "d");
}

TEST_F(BestSpan, DoesNotEndBeforeItStarts) {
  start1_[5] = 5;
  end1_[3] = 5;
  end1_[5] = 1;
  EXPECT_EQ(best(), "c");
  EXPECT_EQ(best(1), "c");  // in the first window the best start and the best end do not go together
}

TEST_F(BestSpan, IsNoLongerThanAllowed) {
  start1_[3] = 5;
  end1_[5] = 5;
  EXPECT_EQ(best(), "a b c");
  end1_[4] = 1;
  EXPECT_EQ(best(20, 2), "a b");
}

TEST_F(BestSpan, EqualSumsGoToTheEarlierSpan) { EXPECT_EQ(best(), "a"); }

TEST_F(BestSpan, IsEmptyWithoutASpan) {
  EXPECT_EQ(best(0), "");
  EXPECT_EQ(best(20, 0), "");
  EXPECT_FALSE(best_span({}).has_value());
  EXPECT_EQ(span_or_null({}, 0).in("a"), "");
}

TEST_F(BestSpan, NoAnswerMustSurpassItByMoreThanTheThreshold) {
  start1_[0] = end1_[0] = 3;
  start2_[0] = 1;
  end2_[0] = 2;  // the least of the windows counts: 3
  start1_[3] = 2.5;
  EXPECT_EQ(best_or_null(0), "");
  EXPECT_EQ(best_or_null(0.5), "a");
  EXPECT_EQ(best_or_null(0.4), "");
  start1_[3] = 3;
  EXPECT_EQ(best_or_null(0), "a");
  EXPECT_EQ(best_or_null(-0.1), "");
  EXPECT_EQ(best_or_null(std::numeric_limits<double>::infinity()), "a");
}

TEST_F(BestSpan, SurvivesNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  start1_.assign(7, nan);
  end1_.assign(7, nan);
  start2_.assign(8, nan);
  start2_[4] = end2_[4] = -3;
  EXPECT_EQ(best(), "d");
}

TEST_F(BestSpan, TooFewLogitsAreAnError) {
  start1_.pop_back();
  EXPECT_EQ(error_message([&] { best(); }), "a window of 7 tokens has 6 start and 7 end logits");
}

}  // namespace
}  // namespace rueda::examples
