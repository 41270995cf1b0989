// SPDX-License-Identifier: Apache-2.0
// Reductions whose values travel as 16-bit floats: how many bytes move, and what is rounded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/uneven_values.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

// To 11 bits and no finer than 2^-24 (fp16), or to 8 (bf16).
float rounded(float value, Compression compression) {
  int exponent = 0;
  std::frexp(value, &exponent);
  const int last = compression == Compression::fp16 ? std::max(exponent - 11, -24) : exponent - 8;
  return std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
}

// Of `count` elements: near the exact result, and the same values of the narrow type on every rank.
void check_values(Compression compression, Rank ranks, std::int64_t count, std::int64_t chunk) {
  Config config;
  config.ring_chunk = chunk;
  std::mutex mutex;
  std::vector<std::vector<float>> results;  // of both tensors, which may be rounded on other hops
  run_ranks(
      ranks,
      [&](Runtime& runtime) {
        std::vector<float> values = own_values(runtime, count), in_place = values, output(values.size());
        const Reduction reduction{ReduceOp::average, 0.5, 2.0, ReductionOrder::any, compression};
        const std::vector<Handle> handles{
            allreduce_async("out of place", view(values), view(output), reduction, runtime),
            allreduce_async("in place", view(in_place), view(in_place), reduction, runtime)};
        for (const Handle& handle : handles) handle.wait();
        EXPECT_EQ(values, own_values(runtime, count)) << "the input has changed";
        const std::lock_guard lock(mutex);
        output.insert(output.end(), in_place.begin(), in_place.end());
        results.push_back(output);
      },
      config);
  for (std::int64_t k = 0; k < 2 * count; ++k) {
    const std::int64_t i = k % count;
    const float value = results.front()[k];
    double exact = 0, size = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
      exact += number(rank, i) / ranks;
      size += std::abs(number(rank, i)) / ranks;
    }
    // Half a unit in the last place, for each hop and at the end.
    const double unit = compression == Compression::bf16 ? 0x1p-8 : 0x1p-11;
    ASSERT_NEAR(value, exact, size * unit * (ranks + 1)) << i << " of " << count;
    if (ranks > 1) {
      ASSERT_EQ(value, rounded(value, compression)) << i << " of " << count;
    }
    for (const std::vector<float>& result : results) ASSERT_EQ(result[k], value) << i << " of " << count;
  }
}

TEST(Compression, GivesNarrowValuesThatAreTheSameEverywhere) {
  for (const Compression compression : {Compression::fp16, Compression::bf16}) {
    for (const Rank ranks : {1, 2, 3, 5}) {
      for (const std::int64_t count : {1, 7, 1000, 30'000}) {
        for (const std::int64_t chunk : {256, 1 << 18}) check_values(compression, ranks, count, chunk);
      }
    }
  }
}

// Bytes that 4 ranks move to reduce 100,000 elements.
std::uint64_t moved_bytes(Compression compression, const Config& config = {},
                          DataType dtype = DataType::float32, bool rows = false) {
  MemoryNetwork network(4);
  run_ranks_on(
      network, 4,
      [&](Runtime& runtime) {
        std::vector<double> memory(100'000, 1.0);
        const TensorView tensor{memory.data(), dtype, {100'000}, {}};
        const Reduction reduction{ReduceOp::sum, 1.0, 1.0, ReductionOrder::any, compression};
        (rows ? reducescatter_async("x", tensor, reduction, runtime)
              : allreduce_async("x", tensor, tensor, reduction, runtime))
            .wait();
      },
      config);
  return network.moved_bytes();
}

TEST(Compression, HalvesTheBytes) {
  EXPECT_EQ(moved_bytes(Compression::none), 2 * 3 * 400'000U);
  EXPECT_EQ(moved_bytes(Compression::fp16), 2 * 3 * 200'000U);
  EXPECT_EQ(moved_bytes(Compression::bf16), 2 * 3 * 200'000U);
  EXPECT_EQ(moved_bytes(Compression::bf16, {}, DataType::float32, true), 3 * 200'000U);
}

TEST(Compression, IsOfFloat32InAnyOrder) {
  EXPECT_EQ(moved_bytes(Compression::bf16, {}, DataType::float64), 2 * 3 * 800'000U);
  EXPECT_EQ(moved_bytes(Compression::bf16, {}, DataType::int32), 2 * 3 * 400'000U);
  Config fixed;
  fixed.reduction_order = ReductionOrder::fixed;
  EXPECT_EQ(moved_bytes(Compression::bf16, fixed), 2 * 3 * 400'000U);
}

TEST(Compression, RoundsNothingInsideAHost) {
  run_on_one_host(3, [](Runtime& runtime) {
    for (const std::int64_t count : {10, 50'000}) {
      std::vector<float> plain = own_values(runtime, count), compressed = plain;
      allreduce_async("plain", view(plain), view(plain), {}, runtime).wait();
      const Reduction reduction{ReduceOp::average, 1.0, 1.0, ReductionOrder::any, Compression::fp16};
      allreduce_async("compressed", view(compressed), view(compressed), reduction, runtime).wait();
      EXPECT_EQ(compressed, plain);
    }
  });
}

// What fp16 has no room for is infinite on every rank; a prescale factor makes room.
TEST(Compression, TellsWhatDoesNotFit) {
  run_ranks(3, [](Runtime& runtime) {
    std::vector<float> large(100, 60000.0F), scaled = large;
    allreduce_async("large", view(large), view(large), {ReduceOp::average, 1.0, 1.0, {}, Compression::fp16},
                    runtime)
        .wait();
    EXPECT_THAT(large, testing::Each(std::numeric_limits<float>::infinity()));
    allreduce_async("scaled", view(scaled), view(scaled),
                    {ReduceOp::average, 1.0 / 4, 4.0, {}, Compression::fp16}, runtime)
        .wait();
    EXPECT_THAT(scaled, testing::Each(60000.0F));
  });
}

TEST(Compression, MustBeTheSameOnAllRanks) {
  run_ranks(2, [](Runtime& runtime) {
    std::vector<float> values(10);
    const Compression compression = runtime.topology().rank == 0 ? Compression::none : Compression::bf16;
    try {
      allreduce_async("x", view(values), view(values), {ReduceOp::sum, 1.0, 1.0, {}, compression}, runtime)
          .wait();
      FAIL() << "it was reduced";
    } catch (const Mismatch& error) {
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("compression"), testing::HasSubstr("none"),
                                               testing::HasSubstr("bf16")));
    }
  });
}

}  // namespace
}  // namespace rueda
