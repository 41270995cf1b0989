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

// A batch is the places of its samples, and the samples.
class NumbersTask final : public Task {
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
