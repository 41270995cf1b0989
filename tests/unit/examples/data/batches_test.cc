// SPDX-License-Identifier: Apache-2.0
// Which windows ranks see does not depend on how many share a step, and padding; also the summary's numbers.
#include "examples/lib/data/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "examples/lib/reporting/run_report.h"

namespace rueda::examples {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Feature window(std::size_t question, std::size_t length) {
  Feature feature{};
  feature.question = question;
  feature.input_ids.assign(length, static_cast<std::int32_t>(question + 10));
  feature.token_types.assign(length, 1);
  feature.start = 1;
  feature.end = static_cast<std::int32_t>(length) - 1;
  return feature;
}

std::vector<std::size_t> step_of(TrainingOrder& order, std::size_t step, std::size_t ranks,
                                 std::size_t passes) {
  std::vector<std::size_t> all;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto part = order.batch(step, pass, rank);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  return all;
}

TEST(Shuffled, IsAPermutationFixedForAllTime) {
  auto order = shuffled(1000, 7);
  EXPECT_NE(order, shuffled(1000, 8));
  EXPECT_EQ(order, shuffled(1000, 7));
  std::ranges::sort(order);
  std::vector<std::size_t> all(1000);
  std::iota(all.begin(), all.end(), std::size_t{0});
  EXPECT_EQ(order, all);
  EXPECT_THAT(shuffled(0, 1), IsEmpty());
  EXPECT_THAT(shuffled(1, 1), ElementsAre(0));
}

TEST(TrainingOrder, AStepReadsTheSameWindowsHoweverItIsShared) {
  TrainingOrder alone(53, 3, 16, 1, 1);
  TrainingOrder ranks(53, 3, 4, 4, 1);
  TrainingOrder passes(53, 3, 4, 1, 4);
  TrainingOrder both(53, 3, 4, 2, 2);
  for (std::size_t step = 0; step < 20; ++step) {  // six epochs, whose ends fall inside steps
    const auto expected = alone.batch(step, 0, 0);
    EXPECT_EQ(step_of(ranks, step, 4, 1), expected);
    EXPECT_EQ(step_of(passes, step, 1, 4), expected);
    EXPECT_EQ(step_of(both, step, 2, 2), expected);
  }
}

TEST(TrainingOrder, EveryEpochReadsEveryWindowOnceInAnotherOrder) {
  TrainingOrder order(12, 1, 4, 1, 1);
  std::vector<std::vector<std::size_t>> epochs(2);
  for (std::size_t step = 0; step < 6; ++step) {
    const auto part = order.batch(step, 0, 0);
    epochs[step / 3].insert(epochs[step / 3].end(), part.begin(), part.end());
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(std::set(epochs[0].begin(), epochs[0].end()).size(), 12u);
  EXPECT_EQ(std::set(epochs[1].begin(), epochs[1].end()).size(), 12u);
}

TEST(TrainingOrder, BatchMayBeLargerThanTheData) {
  TrainingOrder order(3, 1, 7, 1, 1);
  const auto part = order.batch(0, 0, 0);
  for (std::size_t index = 0; index < 3; ++index) EXPECT_GE(std::ranges::count(part, index), 2);
}

TEST(TrainingOrder, RefusesNothing) {
  EXPECT_THROW(TrainingOrder(0, 1, 1, 1, 1), std::invalid_argument);
  EXPECT_THROW(TrainingOrder(5, 1, 0, 1, 1), std::invalid_argument);
}

TEST(EvaluationBatches, KeepQuestionsWholeAndWindowsComplete) {
  std::vector<Feature> features;
  for (std::size_t question = 0; question < 30; ++question) {
    for (std::size_t part = 0; part <= question % 3; ++part)
      features.push_back(window(question, 5 + question));
  }
  features.push_back(window(30, 100));
  const auto batches = evaluation_batches(features, 4);
  std::multiset<std::size_t> seen;
  std::multiset<std::size_t> questions;
  for (const auto& batch : batches) {
    EXPECT_LE(batch.size(), 4u);
    seen.insert(batch.begin(), batch.end());
    std::set<std::size_t> here;
    for (const std::size_t index : batch) here.insert(features[index].question);
    questions.insert(here.begin(), here.end());
  }
  EXPECT_EQ(seen.size(), features.size());
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), features.size());
  EXPECT_EQ(questions.size(), 31u) << "a question is spread over two batches";
  EXPECT_EQ(features[batches.front().front()].question, 30u) << "the longest comes first";
  EXPECT_THAT(evaluation_batches({}, 4), IsEmpty());
}

TEST(EvaluationBatches, AQuestionOfManyWindowsIsABatchOfItsOwn) {
  const std::vector<Feature> features = {window(0, 9), window(0, 9), window(0, 9), window(1, 9)};
  EXPECT_THAT(evaluation_batches(features, 2), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3)));
}

TEST(Pad, ToTheLongestChosen) {
  const std::vector<Feature> features = {window(0, 9), window(1, 2), window(2, 3)};
  const std::vector<std::size_t> chosen = {2, 1};
  const PaddedBatch batch = pad(features, chosen, 5);
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.columns, 3);
  EXPECT_THAT(batch.input_ids, ElementsAre(12, 12, 12, 11, 11, 5));
  EXPECT_THAT(batch.token_types, ElementsAre(1, 1, 1, 1, 1, 0));
  EXPECT_THAT(batch.lengths, ElementsAre(3, 2));
  EXPECT_THAT(batch.starts, ElementsAre(1, 1));
  EXPECT_THAT(batch.ends, ElementsAre(2, 1));
}

TEST(RunReport, MeansOfFiveStepsOrOfAllThereAre) {
  EXPECT_EQ(first_mean({}), std::nullopt);
  EXPECT_EQ(last_mean({}), std::nullopt);
  EXPECT_EQ(first_mean({4, 2}), 3.0);
  EXPECT_EQ(last_mean({4, 2}), 3.0);
  const std::vector<double> losses = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(first_mean(losses), 3.0);
  EXPECT_EQ(last_mean(losses), 6.0);
}

}  // namespace
}  // namespace rueda::examples
