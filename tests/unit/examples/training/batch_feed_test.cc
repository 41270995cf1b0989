// SPDX-License-Identifier: Apache-2.0
// Which samples the ranks get, and the file of the first batches.
#include "examples/lib/training/batch_feed.h"

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "examples/lib/training/tensor_file.h"

namespace rueda::examples {
namespace {

using testing::ElementsAre;

// A batch is the positions of its samples, and the samples.
class NumbersTask : public Task {
 public:
  std::vector<std::string> settings() const override { return {}; }
  std::vector<std::string> words() const override { return {}; }
  std::size_t samples() const override { return 7; }
  TaskBatch make_batch(std::span<const Sample> chosen) const override {
    std::vector<std::int64_t> positions, indices;
    for (const Sample& sample : chosen) {
      positions.push_back(static_cast<std::int64_t>(sample.position));
      indices.push_back(static_cast<std::int64_t>(sample.index));
    }
    return {{{"positions", at::tensor(positions, at::TensorOptions(at::kLong))},
             {"indices", at::tensor(indices, at::TensorOptions(at::kLong))}}};
  }
  torch::nn::Module& model() override { throw std::logic_error("no model"); }
  TaskLoss losses(const TaskBatch&) override { return {}; }
  std::vector<std::string> metric_names() const override { return {}; }
  std::vector<Metric> evaluate() override { return {}; }
  void save(const std::filesystem::path&) const override {}
  void load(const std::filesystem::path&) override {}
};

std::vector<std::int64_t> numbers_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<std::int64_t>(), tensor.const_data_ptr<std::int64_t>() + tensor.numel()};
}

TrainOptions small_batches(std::int64_t workers) {
  TrainOptions options;
  options.steps = 4;
  options.batch = 2;
  options.backward_passes_per_step = 2;
  options.workers = workers;
  return options;
}

TEST(BatchFeed, AStepReadsTheNextSamplesByPassThenByRank) {
  const NumbersTask task;
  for (const std::int64_t workers : {0, 1, 3}) {
    BatchFeed feed(task, small_batches(workers), {.rank = 1, .ranks = 2});
    EXPECT_THAT(numbers_of(feed.next()["positions"]), ElementsAre(2, 3));
    EXPECT_THAT(numbers_of(feed.next()["positions"]), ElementsAre(6, 7));
    EXPECT_THAT(numbers_of(feed.next()["positions"]), ElementsAre(10, 11));
    EXPECT_GE(feed.wait_seconds(), 0);
  }
}

TEST(BatchFeed, OtherNumbersOfRanksReadTheSameSamplesAndGoOnWhereTheyWere) {
  const NumbersTask task;
  const TrainOptions options = small_batches(1);
  BatchFeed alone(task, options, {.samples = 5, .first_step = 1, .ranks = 1});
  BatchFeed first(task, options, {.samples = 5, .first_step = 1, .rank = 0, .ranks = 2});
  BatchFeed second(task, options, {.samples = 5, .first_step = 1, .rank = 1, .ranks = 2});
  const TaskBatch a = alone.next(), b = alone.next(), one = first.next(), two = second.next();
  EXPECT_THAT(numbers_of(a["positions"]), ElementsAre(5, 6));
  EXPECT_EQ(numbers_of(a["indices"]), numbers_of(one["indices"]));
  EXPECT_EQ(numbers_of(b["indices"]), numbers_of(two["indices"]));
  EXPECT_THROW(a["nothing"], std::logic_error);
}

// Its losses are means over things of which sample i has i, and over as many of each.
class CountingTask final : public NumbersTask {
 public:
  std::vector<double> counts(std::span<const Sample> chosen) const override {
    double sum = 0;
    for (const Sample& sample : chosen) sum += static_cast<double>(sample.index);
    return {sum, static_cast<double>(chosen.size()), 0};
  }
};

TEST(BatchFeed, WeightsMakeMeansOfBatchesTheMeanOfTheStep) {
  const CountingTask task;
  const TrainOptions options = small_batches(1);
  std::vector<TaskBatch> step;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    BatchFeed feed(task, options, {.rank = rank, .ranks = 3});
    step.push_back(feed.next());
    step.push_back(feed.next());
  }
  double count = 0, weighed = 0;
  for (const TaskBatch& batch : step) {
    const std::vector<std::int64_t> indices = numbers_of(batch["indices"]);
    const double own = static_cast<double>(indices[0] + indices[1]);
    count += own;
    // The mean of what each thing of sample i is worth, if that is i.
    const double mean =
        own > 0 ? static_cast<double>(indices[0] * indices[0] + indices[1] * indices[1]) / own : 0;
    weighed += mean * batch.weight(0) / static_cast<double>(step.size());
    EXPECT_DOUBLE_EQ(batch.weight(1), 1);
    EXPECT_EQ(batch.weight(2), 1) << "nothing is in the whole step";
  }
  double wanted = 0;
  for (const TaskBatch& batch : step)
    for (const std::int64_t index : numbers_of(batch["indices"]))
      wanted += static_cast<double>(index * index);
  EXPECT_NEAR(weighed, wanted / count, 1e-12);
}

TEST(BatchFeed, ARankThatTrainsByItselfWeighsItsOwnPasses) {
  const CountingTask task;
  TrainOptions options = small_batches(0);
  options.sync = TrainOptions::Sync::never;
  BatchFeed feed(task, options, {.rank = 1, .ranks = 2});
  const TaskBatch first = feed.next(), second = feed.next();
  EXPECT_DOUBLE_EQ(first.weight(0) + second.weight(0), 2);
  options.backward_passes_per_step = 1;
  EXPECT_EQ(BatchFeed(task, options, {.rank = 1, .ranks = 2}).next().weight(0), 1);
}

TEST(BatchDump, KeepsTheFirstTwentySteps) {
  const auto file = std::filesystem::temp_directory_path() / ("rueda_dump_" + std::to_string(::getpid()));
  BatchDump dump(file);
  for (std::int64_t step = 0; step < 22; ++step) {
    EXPECT_EQ(std::filesystem::exists(file), step > 20);
    dump.add(step, 0, {{{"step", at::tensor({step}, at::TensorOptions(at::kLong))}}});
  }
  const auto tensors = read_tensors(file);
  EXPECT_EQ(tensors.size(), 20);
  EXPECT_EQ(tensors.at("19.0.step").item<std::int64_t>(), 19);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace rueda::examples
