// SPDX-License-Identifier: Apache-2.0
// Sums in a fixed order, by messages and through shared memory, against a plain recursion, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/tree_sum.h"
#include "tests/support/conformance/uneven_values.h"
#include "tests/support/conformance/values.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

// What element i of all ranks sums up to, times 0.5.
float tree_of(Rank ranks, std::int64_t i) {
  auto value = [i](std::size_t rank) { return number(static_cast<Rank>(rank), i); };
  return tree_sum(value, 0, static_cast<std::size_t>(ranks)) * 0.5F;
}

constexpr Reduction kHalved{ReduceOp::sum, 1.0, 0.5, ReductionOrder::fixed};

// Tensors of one element, of some, of many pieces; fused; in place and not.
void check_order_of_allreduce(Runtime& runtime) {
  const Rank ranks = runtime.topology().size;
  for (const std::int64_t count : {1, 7, 1000, 70'000}) {
    std::vector<float> values = own_values(runtime, count), in_place = values, output(values.size());
    const std::vector<Handle> handles{
        allreduce_async("out of place", view(values), view(output), kHalved, runtime),
        allreduce_async("in place", view(in_place), view(in_place), kHalved, runtime)};
    for (const Handle& handle : handles) handle.wait();
    for (std::int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(output[i], tree_of(ranks, i)) << ranks << " ranks, element " << i << " of " << count;
      ASSERT_EQ(in_place[i], output[i]);
    }
  }
}

void check_strided_and_small_floats(Runtime& runtime) {
  const Rank ranks = runtime.topology().size;
  constexpr std::int64_t kCount = 3000;
  std::vector<float> wide = own_values(runtime, 2 * kCount);
  std::vector<std::uint16_t> halves;
  for (std::int64_t i = 0; i < kCount; ++i)
    halves.push_back(float_to_bfloat16(number(runtime.topology().rank, i)));
  const TensorView strided{wide.data(), DataType::float32, {kCount}, {2}};
  const TensorView small{halves.data(), DataType::bfloat16, {kCount}, {}};
  allreduce_async("strided", strided, strided, kHalved, runtime).wait();
  allreduce_async("small", small, small, kHalved, runtime).wait();
  for (std::int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(wide[2 * i], tree_of(ranks, 2 * i));
    auto half = [i](std::size_t rank) {
      return bfloat16_to_float(float_to_bfloat16(number(static_cast<Rank>(rank), i)));
    };
    ASSERT_EQ(halves[i], float_to_bfloat16(tree_sum(half, 0, static_cast<std::size_t>(ranks)) * 0.5F)) << i;
  }
}

void check_order_of_reducescatter(Runtime& runtime) {
  const Rank ranks = runtime.topology().size, rank = runtime.topology().rank;
  constexpr std::int64_t kWidth = 300;
  for (const std::int64_t rows : {1, 5, 40}) {
    std::vector<float> values = own_values(runtime, rows * kWidth);
    const TensorView input{values.data(), DataType::float32, {rows, kWidth}, {}};
    const Handle handle = reducescatter_async("rows", input, kHalved, runtime);
    handle.wait();
    const TensorView& output = handle.output();
    const std::int64_t first = rows / ranks * rank + std::min<std::int64_t>(rank, rows % ranks);
    for (std::int64_t i = 0; i < output.elements(); ++i) {
      ASSERT_EQ(static_cast<float>(value_at(DataType::float32, output.data, i)),
                tree_of(ranks, first * kWidth + i));
    }
  }
}

void check_all(Runtime& runtime) {
  check_order_of_allreduce(runtime);
  check_strided_and_small_floats(runtime);
  check_order_of_reducescatter(runtime);
}

Config with_chunk(std::int64_t chunk) {
  Config config;
  config.ring_chunk = chunk;
  return config;
}

TEST(ReductionOrder, IsATreeOverLinks) {
  for (const Rank ranks : {2, 3, 4, 5, 6, 7, 8, 9}) {
    for (const std::int64_t chunk : {256, 1 << 18}) run_ranks(ranks, check_all, with_chunk(chunk));
  }
}

// Of short vectors too: for 2, 4 and 8 ranks by recursive doubling, or halving.
TEST(ReductionOrder, IsATreeOverLinksWhereAllIsShort) {
  for (const auto most : {&Config::short_bytes, &Config::medium_bytes}) {
    for (const Rank ranks : {2, 3, 4, 8}) {
      Config config = with_chunk(ranks == 4 ? 256 : 1 << 18);
      config.*most = 16 << 20;
      run_ranks(ranks, check_all, config);
    }
  }
}

TEST(ReductionOrder, IsATreeOnOneHost) {
  for (const Rank ranks : {2, 3, 4, 5, 7, 8}) run_on_one_host(ranks, check_all);
}

TEST(ReductionOrder, IsATreeOnHostsOfSeveralRanks) {
  MemoryNetwork network(5, 8, 2);
  run_ranks_on(network, 5, check_all);
}

TEST(ReductionOrder, TheSettingMakesItFixed) {
  std::atomic<int> differ{0};
  auto count_other_bits = [&](Runtime& runtime) {
    std::vector<float> values = own_values(runtime, 1000);
    allreduce_async("x", view(values), view(values), {ReduceOp::sum, 1.0, 0.5}, runtime).wait();
    for (std::int64_t i = 0; i < 1000; ++i) differ += values[i] != tree_of(6, i) ? 1 : 0;
  };
  run_ranks(6, count_other_bits);
  EXPECT_GT(differ.load(), 100);  // a ring has another order
  Config config;
  config.reduction_order = ReductionOrder::fixed;
  differ = 0;
  run_ranks(6, count_other_bits, config);
  EXPECT_EQ(differ.load(), 0);
}

TEST(ReductionOrder, MustBeTheSameOnAllRanks) {
  MemoryNetwork network(3);
  run_ranks_on(
      network, 3,
      [](Runtime& runtime) {
        std::vector<float> values(10);
        try {
          allreduce_async("x", view(values), view(values), {}, runtime).wait();
          ADD_FAILURE() << "no exception";
        } catch (const Mismatch& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr("'x': the ranks differ in reduction order: ranks 0-1 "
                                                       "asked for any, rank 2 for fixed"));
        }
        std::vector<float> rows(3);
        allgather_async("y", view(rows), runtime).wait();  // has no order
      },
      [](Rank rank) {
        Config config;
        if (rank == 2) config.reduction_order = ReductionOrder::fixed;
        return config;
      });
}

// Values of other ranks for which there is no memory: one operation fails, the next works.
TEST(ReductionOrder, ARankWithoutMemoryFailsOneOperation) {
  for (const Rank bad : {0, 2}) {
    MemoryNetwork network(4);
    std::atomic<int> failed{0};
    run_ranks_on(
        network, 4,
        [&](Runtime& runtime) {
          const Rank rank = runtime.topology().rank;
          std::vector<float> values(20'000, 1.0F), rows(20'000, 1.0F);
          if (rank == bad) network.take_memory_from(rank, 4096);
          const std::vector<Handle> handles{
              allreduce_async("values", view(values), view(values), kHalved, runtime),
              reducescatter_async("rows", view(rows), kHalved, runtime)};
          for (const Handle& handle : handles) {
            const Status status = handle.wait_status();
            if (!status.ok()) ++failed;
            if (rank != bad) continue;
            EXPECT_THAT(status.message, testing::HasSubstr("no memory for values of other ranks"));
          }
          if (rank == bad) network.take_memory_from(rank, std::size_t{1} << 40);
          barrier_async(runtime).wait();
          check_order_of_allreduce(runtime);
        },
        with_chunk(4096));
    EXPECT_GE(failed.load(), 2);
  }
}

}  // namespace
}  // namespace rueda
