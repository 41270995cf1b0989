// SPDX-License-Identifier: Apache-2.0
// What devices do of a BatchCopy, run on the host: the bits of the host's own kernels.
#include "ops/cuda/batch_copy_body.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "core/base/operation_traits.h"
#include "ops/kernels/kernels.h"

namespace rueda {
namespace {

constexpr std::size_t kCount = 1 << 16;

// Any bits: infinities, NaNs and subnormals are among them.
std::vector<std::byte> any_values(std::size_t bytes) {
  std::mt19937 random(7);
  std::vector<std::byte> values(bytes + 64);
  for (std::byte& value : values) value = static_cast<std::byte>(random());
  return values;
}

void run_threads(const BatchCopy& copy, std::int64_t threads) {
  choose_copy(copy, [&]<class Body>(std::int64_t scale) {
    for (CopyPiece piece : copy.pieces) {
      piece.elements *= scale;
      for (std::int64_t thread = 0; thread < threads; ++thread)
        Body::run(piece, copy.factor, thread, threads);
    }
  });
}

// values * factor by the kernels of the host: widened, multiplied once, rounded once.
std::vector<std::byte> expected(DataType from, DataType to, double factor, const std::byte* values) {
  std::vector<std::byte> wide(kCount * 8), result(kCount * 8);
  kernels::kernels_for(from).load(wide.data(), values, kCount, {factor, 1});
  kernels::kernels_for(to).store(result.data(), wide.data(), kCount, {1.0, 1});
  return result;
}

bool is_nan(DataType dtype, const std::byte* value) {
  std::vector<std::byte> wide(8);
  kernels::kernels_for(dtype).load(wide.data(), value, 1, {});
  if (accumulator_of(dtype) == DataType::float64) {
    double number = 0;
    std::memcpy(&number, wide.data(), sizeof number);
    return number != number;
  }
  float number = 0;
  std::memcpy(&number, wide.data(), sizeof number);
  return number != number;
}

void expect_the_same(DataType dtype, const std::byte* a, const std::byte* b) {
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < kCount; ++i) {
    if (std::memcmp(a + i * size, b + i * size, size) == 0) continue;
    ASSERT_TRUE(is_nan(dtype, a + i * size) && is_nan(dtype, b + i * size))
        << to_string(dtype) << " element " << i;
  }
}

TEST(BatchCopy, ComputesTheBitsOfTheHostsKernels) {
  using enum DataType;
  const std::vector<std::pair<DataType, DataType>> pairs{
      {float32, float32}, {float64, float64},  {float16, float16}, {bfloat16, bfloat16},
      {float32, float16}, {float32, bfloat16}, {float16, float32}, {bfloat16, float32}};
  for (const auto& [from, to] : pairs) {
    for (const double factor : {0.125, 1.0 / 3, 2.5}) {
      for (const std::size_t misaligned : {0, 1}) {
        const std::vector<std::byte> values = any_values(kCount * size_of(from));
        const std::byte* begin = values.data() + misaligned * size_of(from);
        std::vector<std::byte> result(kCount * size_of(to));
        run_threads({from, to, factor, {{begin, result.data(), kCount}}}, 5);
        expect_the_same(to, result.data(), expected(from, to, factor, begin).data());
      }
    }
  }
}

TEST(BatchCopy, CopiesBytesOfAnyTypeAndLength) {
  const std::vector<std::byte> values = any_values(4096);
  for (const DataType dtype : {DataType::boolean, DataType::int16, DataType::int64, DataType::float16}) {
    for (const std::int64_t elements : {0, 1, 15, 16, 17, 100}) {
      std::vector<std::byte> result(4096, std::byte{0xee});
      const auto bytes = static_cast<std::size_t>(elements) * size_of(dtype);
      run_threads({dtype, dtype, 1.0, {{values.data(), result.data(), elements}}}, 7);
      EXPECT_EQ(std::memcmp(result.data(), values.data(), bytes), 0);
      EXPECT_EQ(result[bytes], std::byte{0xee}) << "nothing behind the last element";
    }
  }
}

TEST(BatchCopy, KnowsWhatIsPossible) {
  using enum DataType;
  EXPECT_TRUE(BatchCopy::possible(int32, int32, 1.0));
  EXPECT_FALSE(BatchCopy::possible(int32, int32, 2.0));
  EXPECT_FALSE(BatchCopy::possible(float16, bfloat16, 1.0));
  EXPECT_FALSE(BatchCopy::possible(float64, float32, 1.0));
  EXPECT_TRUE(BatchCopy::possible(bfloat16, float32, 0.5));
}

}  // namespace
}  // namespace rueda
