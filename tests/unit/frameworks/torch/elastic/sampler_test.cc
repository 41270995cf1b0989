// SPDX-License-Identifier: Apache-2.0
// Samples of ranks whose number changes within an epoch.
#include "rueda/torch/elastic/sampler.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/dataloader.h>
#include <torch/data/datasets/map.h>
#include <torch/data/datasets/tensor.h>
#include <torch/data/transforms/stack.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/support/words_of.h"

namespace rueda::elastic {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Indices = std::vector<std::size_t>;

// Each rank reads one batch. Counts the samples.
void read_batch(Sampler& sampler, Rank ranks, std::size_t batch_size, std::map<std::size_t, int>& times) {
  std::size_t read = 0;
  for (Rank rank = 0; rank < ranks; ++rank) {
    sampler.divide(rank, ranks);
    const auto batch = sampler.next(batch_size);
    ASSERT_TRUE(batch);
    EXPECT_TRUE(rank == 0 || batch->size() == read) << "ranks have different numbers of samples";
    read = batch->size();
    for (const std::size_t index : *batch) ++times[index];
  }
  sampler.record_batch(read);
}

TEST(ElasticSampler, HasEachSampleOnceWhileRanksComeAndGo) {
  Sampler sampler(120, {.seed = 4});
  std::map<std::size_t, int> times;
  for (const Rank ranks : {3, 2, 4, 1, 3}) read_batch(sampler, ranks, 5, times);
  sampler.divide(0, 1);
  for (const std::size_t index : sampler.indices()) ++times[index];
  EXPECT_EQ(times.size(), 120U);
  EXPECT_TRUE(std::ranges::all_of(times, [](const auto& each) { return each.second == 1; }));
}

TEST(ElasticSampler, RepeatsTheFirstOfThoseLeftWhereTheyDoNotDivide) {
  Sampler sampler(11, {.shuffle = false});
  sampler.divide(0, 1);
  sampler.record_batch(3);
  sampler.divide(0, 3);
  EXPECT_THAT(sampler.indices(), ElementsAre(3, 6, 9));
  sampler.divide(1, 3);
  EXPECT_THAT(sampler.indices(), ElementsAre(4, 7, 10));
  sampler.divide(2, 3);
  EXPECT_THAT(sampler.indices(), ElementsAre(5, 8, 3));
  sampler.record_batch(3);
  EXPECT_EQ(sampler.position().processed, 12U);
  sampler.divide(2, 3);
  EXPECT_FALSE(sampler.next(4));
}

TEST(ElasticSampler, HasFewerSamplesThanRanks) {
  Sampler sampler(2, {.shuffle = false});
  Indices all;
  for (Rank rank = 0; rank < 5; ++rank) {
    sampler.divide(rank, 5);
    all.insert(all.end(), sampler.indices().begin(), sampler.indices().end());
  }
  EXPECT_THAT(all, ElementsAre(0, 1, 0, 1, 0));
}

// Other numbers would change what trainings read after an update of the compiler.
TEST(ElasticSampler, DrawsTheSameOrderOnEveryMachine) {
  Sampler sampler(6, {.seed = 3});
  EXPECT_THAT(sampler.indices(), ElementsAre(1, 3, 2, 4, 0, 5));
  const Indices first = sampler.indices();
  sampler.set_epoch(1);
  EXPECT_NE(sampler.indices(), first);
  EXPECT_EQ(sampler.epoch(), 1U);
  sampler.set_epoch(0);
  EXPECT_EQ(sampler.indices(), first);
}

TEST(ElasticSampler, BeginsAnEpochWithAllSamples) {
  Sampler sampler(10);
  sampler.record_batch(4);
  sampler.reset();
  EXPECT_EQ(sampler.indices().size(), 6U);
  sampler.set_epoch(1);
  EXPECT_EQ(sampler.indices().size(), 10U);
  EXPECT_EQ(sampler.position().processed, 0U);
}

TEST(ElasticSampler, ReadsOnWhereTheLoadedPositionIs) {
  Sampler sampler(20, {.seed = 8});
  sampler.set_epoch(3);
  sampler.record_batch(6);
  std::ostringstream file;
  torch::serialize::OutputArchive written;
  sampler.save(written);
  written.save_to(file);
  Sampler other(20, {.seed = 8});
  std::istringstream stream(file.str());
  torch::serialize::InputArchive read;
  read.load_from(stream);
  other.load(read);
  sampler.reset();
  EXPECT_EQ(other.epoch(), 3U);
  EXPECT_EQ(other.position().processed, 6U);
  EXPECT_EQ(other.indices(), sampler.indices());
}

TEST(ElasticSampler, CopiesHaveOnePosition) {
  Sampler sampler(10, {.shuffle = false});
  const auto data = torch::data::datasets::TensorDataset(at::arange(10))
                        .map(torch::data::transforms::Stack<torch::data::TensorExample>());
  auto loader = torch::data::make_data_loader(data, sampler, 4);
  for (auto& batch : *loader) {
    EXPECT_EQ(batch.data.size(0), 4);
    sampler.record_batch(4);
    break;
  }
  Indices rest;
  for (auto& batch : *loader) {
    const std::vector<std::int64_t> values(batch.data.data_ptr<std::int64_t>(),
                                           batch.data.data_ptr<std::int64_t>() + batch.data.numel());
    rest.insert(rest.end(), values.begin(), values.end());
    sampler.record_batch(values.size());
  }
  EXPECT_THAT(rest, ElementsAre(4, 5, 6, 7, 8, 9));
  sampler.set_epoch(1);
  std::int64_t count = 0;
  for (auto& batch : *loader) count += batch.data.size(0);
  EXPECT_EQ(count, 10);
}

TEST(ElasticSampler, TakesAnotherSize) {
  Sampler sampler(10, {.shuffle = false});
  sampler.reset(3);
  EXPECT_THAT(sampler.indices(), ElementsAre(0, 1, 2));
}

TEST(ElasticSampler, RefusesRanksThatDoNotExist) {
  Sampler sampler(10);
  EXPECT_THAT(words_of([&] { sampler.divide(3, 3); }), HasSubstr("rank 3 is none of 3 ranks"));
}

}  // namespace
}  // namespace rueda::elastic
