// SPDX-License-Identifier: Apache-2.0
// Samplers and metrics over ranks that are threads.
#include "rueda/torch/data/samplers.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <sstream>

#include "core/engine/runtime.h"
#include "rueda/torch/data/average_metric.h"
#include "tests/support/rank_words.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Indices = std::vector<std::size_t>;

// What each rank's sampler, made by `make`, hands out in one epoch, in batches of two.
template <class Make>
std::vector<Indices> epoch_of(Rank ranks, const Make& make) {
  std::vector<Indices> all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Runtime& runtime) {
    auto sampler = make(runtime);
    Indices& own = all[static_cast<std::size_t>(runtime.topology().rank)];
    while (const auto batch = sampler.next(2)) {
      EXPECT_TRUE(batch->size() == 2 || own.size() + batch->size() == sampler.indices().size());
      own.insert(own.end(), batch->begin(), batch->end());
    }
    EXPECT_FALSE(sampler.next(2).has_value());
    EXPECT_EQ(own, sampler.indices());
  });
  return all;
}

Indices joined(const std::vector<Indices>& parts) {
  Indices all;
  for (const Indices& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Indices counted(std::size_t count) {
  Indices all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

TEST(EvaluationSampler, HasEachIndexOnExactlyOneRankInOrder) {
  for (const Rank ranks : {1, 2, 3}) {
    for (const std::size_t size : {0, 1, 2, 5, 6, 7}) {
      const auto parts = epoch_of(ranks, [&](Runtime& runtime) { return EvaluationSampler(size, runtime); });
      EXPECT_EQ(joined(parts), counted(size)) << ranks;
      EXPECT_LE(parts.front().size() - parts.back().size(), 1U);
    }
  }
}

TEST(DistributedSampler, OnePermutationDealtOutEqually) {
  const auto parts_of = [](Rank ranks, Remainder remainder) {
    return epoch_of(ranks, [&](Runtime& runtime) {
      return DistributedSampler(11, {.seed = 5, .remainder = remainder}, runtime);
    });
  };
  const Indices whole = parts_of(1, Remainder::drop).front();
  Indices sorted = whole;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, counted(11));
  EXPECT_NE(whole, counted(11));
  for (const Rank ranks : {2, 3}) {
    for (const Remainder remainder : {Remainder::drop, Remainder::wrap}) {
      const std::size_t each = (11 + (remainder == Remainder::wrap ? ranks - 1 : 0)) / ranks;
      const auto parts = parts_of(ranks, remainder);
      for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        ASSERT_EQ(parts[rank].size(), each);
        for (std::size_t i = 0; i < each; ++i)
          EXPECT_EQ(parts[rank][i], whole[(i * parts.size() + rank) % 11]);
      }
    }
  }
}

TEST(DistributedSampler, EpochsComeOneAfterAnotherOrAsTheyAreSet) {
  run_ranks(2, [](Runtime& runtime) {
    DistributedSampler sampler(100, {.seed = 1}, runtime);
    std::map<std::size_t, Indices> epochs;
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      sampler.reset();  // as loaders do
      EXPECT_EQ(sampler.epoch(), epoch);
      epochs[epoch] = *sampler.next(50);
      EXPECT_EQ(epochs[epoch].size(), 50U);
    }
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_NE(epochs[1], epochs[2]);
    sampler.set_epoch(1);
    EXPECT_EQ(sampler.next(50), epochs[1]);
    sampler.set_epoch(2);
    sampler.reset();
    EXPECT_EQ(sampler.next(50), epochs[2]);
    EXPECT_NE(DistributedSampler(100, {.seed = 2}, runtime).indices(), epochs[0]);
    sampler.reset(10);
    EXPECT_EQ(sampler.indices().size(), 5U);
  });
}

// Other numbers would change what trainings read after an update of the compiler.
TEST(DistributedSampler, IsTheSameOnEveryMachine) {
  run_ranks(1, [](Runtime& runtime) {
    EXPECT_THAT(DistributedSampler(6, {.seed = 3}, runtime).indices(), ElementsAre(1, 3, 2, 4, 0, 5));
  });
}

TEST(DistributedSampler, GoesOnWhereItWasOnAnotherNumberOfRanks) {
  std::ostringstream file;
  Indices whole;
  run_ranks(2, [&](Runtime& runtime) {
    DistributedSampler sampler(12, {.seed = 9}, runtime);
    sampler.set_epoch(4);
    sampler.next(2);
    if (runtime.topology().rank != 0) return;
    torch::serialize::OutputArchive archive;
    sampler.save(archive);
    archive.save_to(file);
  });
  run_ranks(1, [&](Runtime& runtime) {
    DistributedSampler sampler(12, {.seed = 9}, runtime);
    std::istringstream stream(file.str());
    torch::serialize::InputArchive archive;
    archive.load_from(stream);
    sampler.load(archive);
    EXPECT_EQ(sampler.epoch(), 4U);
    const Indices all = sampler.indices();
    sampler.reset();  // as a loader does when it begins
    EXPECT_EQ(sampler.next(100), Indices(all.begin() + 4, all.end()));
    sampler.reset();
    EXPECT_EQ(sampler.epoch(), 5U);
    EXPECT_EQ(sampler.next(100), sampler.indices());
  });
}

TEST(Samplers, InAProcessSet) {
  run_ranks(3, [](Runtime& runtime) {
    const ProcessSet set = add_process_set(RankSet(1, 3), runtime);
    if (!set.included()) {
      EXPECT_THAT(error_message([&] { EvaluationSampler(4, set); }), HasSubstr("this rank is none"));
      return;
    }
    EXPECT_EQ(EvaluationSampler(4, set).indices(), set.rank() == 0 ? (Indices{0, 1}) : (Indices{2, 3}));
    EXPECT_EQ(average_metric(set.rank(), 1, "mean", set), 0.5);
  });
}

TEST(Samplers, WhatRanksMeanDifferentlyIsToldOnAll) {
  RankWords size, few;
  run_ranks(3, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    size.of([&] { EvaluationSampler(rank == 2 ? 5 : 4, runtime); });
    EXPECT_THROW(DistributedSampler(9, {.seed = static_cast<std::uint64_t>(rank)}, runtime), Mismatch);
    few.of([&] { DistributedSampler(2, {.remainder = Remainder::wrap}, runtime); });
  });
  EXPECT_THAT(size.common(3), HasSubstr("ranks 0-1 have 4 samples, rank 2 has 5 samples"));
  EXPECT_THAT(few.common(3), HasSubstr("2 samples for 3 ranks"));
}

class AverageMetric : public testing::TestWithParam<Rank> {};

TEST_P(AverageMetric, IsThatOfAllSamplesTogether) {
  const Rank ranks = GetParam();
  double sum = 0, squares = 0;
  int count = 0;
  for (Rank rank = 0; rank < ranks; ++rank) {
    for (int i = 0; i < 3 * rank + 1; ++i, ++count) sum += count, squares += count * count;
  }
  run_ranks(ranks, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    int first = 0;
    for (Rank before = 0; before < rank; ++before) first += 3 * before + 1;
    double own = 0, own_squares = 0;
    const int many = 3 * rank + 1;
    for (int i = first; i < first + many; ++i) own += i, own_squares += i * i;
    const auto means = average_metric({own / many, own_squares / many}, many, "both", runtime);
    EXPECT_NEAR(means[0], sum / count, 1e-12);
    EXPECT_NEAR(means[1], squares / count, 1e-12);
    EXPECT_EQ(average_metric(rank == 0 ? 2.5 : std::nan(""), rank == 0 ? 4 : 0, "one", runtime), 2.5);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, AverageMetric, testing::Values(1, 2, 3));

TEST(AverageMetrics, ImpossibleCountsAreToldOnEveryRank) {
  RankWords none, negative;
  run_ranks(3, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    none.of([&] { average_metric(1.0, 0, "loss", runtime); });
    negative.of([&] { average_metric(1.0, rank == 1 ? -2 : 4, "loss", runtime); });
    EXPECT_THROW(average_metric(std::vector<double>(1 + rank), 1, "loss", runtime), Mismatch);
    EXPECT_EQ(average_metric(1.0, 1, "loss", runtime), 1.0);
  });
  EXPECT_THAT(none.common(3), HasSubstr("average_metric 'loss': the count is 0 on every rank"));
  EXPECT_THAT(negative.common(3), HasSubstr("'loss': rank 1: the count is -2"));
}

}  // namespace
}  // namespace rueda
