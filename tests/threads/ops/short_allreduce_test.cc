// SPDX-License-Identifier: Apache-2.0
// Allreduces that are short enough for recursive doubling or halving, through the whole stack.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/conformance.h"
#include "tests/support/conformance/uneven_values.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

Config all_is_short(std::int64_t chunk = 1 << 18) {
  Config config;
  config.ring_chunk = chunk;
  config.short_bytes = 16 << 20;
  return config;
}

Config all_is_medium(std::int64_t chunk = 1 << 18) {
  Config config;
  config.ring_chunk = chunk;
  config.medium_bytes = 16 << 20;
  return config;
}

// By the number of ranks.
class ShortAllreduces : public testing::TestWithParam<Rank> {};

TEST_P(ShortAllreduces, Conform) {
  run_ranks(GetParam(), check_allreduce, all_is_short(GetParam() % 3 == 0 ? 192 : 1 << 18));
}

class MediumAllreduces : public testing::TestWithParam<Rank> {};

TEST_P(MediumAllreduces, Conform) {
  run_ranks(GetParam(), check_allreduce, all_is_medium(GetParam() == 4 ? 192 : 1 << 18));
}

INSTANTIATE_TEST_SUITE_P(Ranks, MediumAllreduces, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(Ranks, ShortAllreduces, testing::Values(2, 3, 4, 5, 7, 8),
                         testing::PrintToStringParamName());

TEST(ShortAllreduce, OfOtherStridesAndMismatchesConform) {
  for (const Rank ranks : {3, 4}) {
    run_ranks(
        ranks,
        [](Runtime& runtime) {
          check_strides(runtime);
          check_mismatches(runtime);
        },
        all_is_short(1 << 18));
  }
}

// Bytes that 4 ranks move to reduce so many floats.
std::uint64_t moved_bytes(std::int64_t count, const Config& config, Compression compression) {
  MemoryNetwork network(4);
  run_ranks_on(
      network, 4,
      [&](Runtime& runtime) {
        std::vector<float> values(static_cast<std::size_t>(count), 1.0F);
        allreduce_async("x", view(values), view(values),
                        {ReduceOp::sum, 1.0, 1.0, ReductionOrder::any, compression}, runtime)
            .wait();
        EXPECT_EQ(values, std::vector<float>(values.size(), 4.0F));
      },
      config);
  return network.moved_bytes();
}

TEST(ShortAllreduce, MovesTheWholeVectorTwiceUpToTheSwitchPoint) {
  Config config;
  config.short_bytes = 4096;
  for (const Compression compression : {Compression::none, Compression::bf16}) {
    const std::uint64_t narrow = compression == Compression::none ? 1 : 2;
    EXPECT_EQ(moved_bytes(1024, config, compression), 4 * 2 * 4096U);  // nothing is compressed
    EXPECT_EQ(moved_bytes(1040, config, compression), 2 * 3 * 4160U / narrow);
  }
}

TEST(MediumAllreduce, MovesWhatARingMoves) {
  Config config;
  config.medium_bytes = 4160;
  EXPECT_EQ(moved_bytes(1040, config, Compression::none), 2 * 3 * 4160U);
  EXPECT_EQ(moved_bytes(1040, config, Compression::fp16), 2 * 3 * 4160U / 2);  // by the ring, compressed
}

// Sums of which the order matters, some of them of 16-bit floats: every rank has the same bits, rounded once.
TEST(ShortAllreduce, GivesTheSameBitsEverywhere) {
  for (const auto& [ranks, config] : {std::pair{2, all_is_short()},
                                      {3, all_is_short()},
                                      {5, all_is_short()},
                                      {8, all_is_short()},
                                      {4, all_is_medium()},
                                      {8, all_is_medium()}}) {
    const bool halves = config.medium_bytes > 0;
    std::mutex mutex;
    std::vector<std::vector<float>> results;
    run_ranks(
        ranks,
        [&](Runtime& runtime) {
          std::vector<float> values = own_values(runtime, 1000), output(values.size());
          const Reduction reduction{ReduceOp::average, 0.5, 2.0, ReductionOrder::any,
                                    halves ? Compression::none : Compression::fp16};
          allreduce_async("x", view(values), view(output), reduction, runtime).wait();
          EXPECT_EQ(values, own_values(runtime, 1000)) << "the input has changed";
          const std::lock_guard lock(mutex);
          results.push_back(std::move(output));
        },
        config);
    for (std::int64_t i = 0; i < 1000; ++i) {
      double exact = 0, size = 0;
      for (Rank rank = 0; rank < ranks; ++rank) {
        exact += number(rank, i) / ranks;
        size += std::abs(number(rank, i)) / ranks;
      }
      ASSERT_NEAR(results.front()[i], exact, size * 0x1p-20) << i;
      for (const auto& result : results) ASSERT_EQ(result[i], results.front()[i]) << i;
    }
  }
}

TEST(ShortAllreduce, CountsEverySquareOnce) {
  for (const auto& [ranks, config] : {std::pair{2, all_is_short()},
                                      {3, all_is_short()},
                                      {4, all_is_short()},
                                      {7, all_is_short()},
                                      {4, all_is_medium()}}) {
    run_ranks(
        ranks,
        [](Runtime& runtime) {
          for (const std::int64_t count : {1, 21, 5000}) {
            std::vector<float> values = own_values(runtime, count);
            const Handle handle = allreduce_async("x", view(values), view(values),
                                                  {.op = ReduceOp::sum, .measure = true}, runtime);
            handle.wait();
            std::vector<double> share{handle.share_of_square_sum()};
            allreduce_async("share", view(share), view(share), {ReduceOp::sum}, runtime).wait();
            double squares = 0;
            for (const float value : values) squares += double{value} * value;
            EXPECT_NEAR(share.front(), squares, squares * 1e-12) << count;
          }
        },
        config);
  }
}

TEST(ShortAllreduce, OfAProcessSetIsThatOfItsMembers) {
  run_ranks(
      6,
      [](Runtime& runtime) {
        RankSet some = RankSet::of(1);
        some.add(RankSet::of(3));
        some.add(RankSet::of(4));
        const ProcessSet set = add_process_set(some, runtime);
        if (!set.included()) return;
        std::vector<float> values(100, static_cast<float>(runtime.topology().rank));
        allreduce_async("x", view(values), view(values), {ReduceOp::sum}, set).wait();
        EXPECT_EQ(values, std::vector<float>(100, 8.0F));
      },
      all_is_short());
}

// One operation fails, the next works.
TEST(ShortAllreduce, ARankWithoutMemoryFailsOneOperation) {
  for (const auto& [ranks, config] : {std::pair{2, all_is_short(8192)},
                                      {3, all_is_short(8192)},
                                      {6, all_is_short(8192)},
                                      {4, all_is_medium(8192)}}) {
    for (Rank bad = 0; bad < ranks; ++bad) {
      MemoryNetwork network(ranks);
      std::atomic<int> failed{0};
      run_ranks_on(
          network, ranks,
          [&](Runtime& runtime) {
            const Rank rank = runtime.topology().rank;
            std::vector<float> values(20'000, 1.0F);
            if (rank == bad) network.take_memory_from(rank, 4096);
            const Handle handle = allreduce_async("x", view(values), view(values), {ReduceOp::sum}, runtime);
            const Status status = handle.wait_status();
            if (!status.ok()) ++failed;
            if (rank == bad) {
              EXPECT_THAT(status.message, testing::HasSubstr("no memory for partial sums"));
            }
            network.take_memory_from(rank, std::numeric_limits<std::size_t>::max());
            barrier_async(runtime).wait();
            std::vector<float> next(20'000, 1.0F);
            allreduce_async("next", view(next), view(next), {ReduceOp::sum}, runtime).wait();
            EXPECT_EQ(next, std::vector<float>(20'000, static_cast<float>(ranks)));
          },
          config);
      EXPECT_GE(failed.load(), 1);
    }
  }
}

}  // namespace
}  // namespace rueda
