// SPDX-License-Identifier: Apache-2.0
#include "ops/kernels/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "ops/kernels/line.h"

namespace rueda::kernels {
namespace {

// Walks every index in row-major order, the slow way.
template <class Visit>
void for_each_index(const Shape& shape, const Strides& strides, Visit visit) {
  for (std::int64_t number = 0; number < element_count(shape); ++number) {
    std::int64_t rest = number, offset = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      offset += rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    visit(number, offset);
  }
}

void run(Packing packing) {
  while (packing.advance() > 0) continue;
  EXPECT_TRUE(packing.done());
}

void check_pieces(DataType dtype, const Shape& shape, const Strides& strides, std::int64_t piece) {
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> memory(200'000 * size),
      packed(static_cast<std::size_t>(element_count(shape)) * size + 1, std::byte{7});
  std::mt19937 random(1);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
  run(Packing::pack(packed.data(), {memory.data(), dtype, shape, strides}, piece));
  const Strides full = strides.empty() ? contiguous_strides(shape) : strides;
  for_each_index(shape, full, [&](std::int64_t number, std::int64_t offset) {
    ASSERT_EQ(std::memcmp(packed.data() + number * size, memory.data() + offset * size, size), 0)
        << to_string(shape) << " at " << number;
  });
  ASSERT_EQ(packed.back(), std::byte{7});

  std::vector<std::byte> expected(memory.size(), std::byte{9}), unpacked = expected;
  for_each_index(shape, full, [&](std::int64_t number, std::int64_t offset) {
    std::memcpy(expected.data() + offset * size, packed.data() + number * size, size);
  });
  run(Packing::unpack({unpacked.data(), dtype, shape, strides}, packed.data(), piece));
  ASSERT_EQ(unpacked, expected) << to_string(shape);
}

void check(DataType dtype, const Shape& shape, const Strides& strides) {
  for (std::int64_t piece : {1, 100, 4000, 1 << 20}) check_pieces(dtype, shape, strides, piece);
}

TEST(Pack, CopiesEveryLayout) {
  for (DataType dtype : {DataType::int8, DataType::float16, DataType::float32, DataType::float64}) {
    check(dtype, {}, {});
    check(dtype, {0}, {});
    check(dtype, {5, 0, 3}, {1, 1, 1});
    check(dtype, {1000}, {});
    check(dtype, {1000}, {3});
    check(dtype, {20, 30}, {1, 20});             // transposed
    check(dtype, {2, 3, 4, 5}, {60, 1, 15, 3});  // channels last
    check(dtype, {4, 100, 10}, {1200, 10, 1});   // a slice of a larger tensor
    check(dtype, {1, 7, 1, 9, 1}, {99, 9, 99, 1, 5});
    check(dtype, {2, 2, 2, 2, 2, 2, 2, 2}, {1, 2, 4, 8, 16, 32, 64, 128});
    check(dtype, {3, 5000}, {5003, 1});
    check(dtype, {67, 131}, {1, 67});          // transposed, rows longer than a cache line
    check(dtype, {5, 70, 90}, {1, 450, 5});    // strided rows that are cut, and an outer dimension
    check(dtype, {9, 11, 130}, {1, 1170, 9});  // all dimensions turned round
  }
}

TEST(Pack, ReadsExpandedTensors) {
  const float value = 2.5f;
  std::vector<float> packed(12);
  run(Packing::pack(packed.data(), {&value, DataType::float32, {3, 4}, {0, 0}}));
  EXPECT_EQ(packed, std::vector<float>(12, 2.5f));
  const std::vector<float> row{1, 2, 3, 4};
  run(Packing::pack(packed.data(), {row.data(), DataType::float32, {3, 4}, {0, 1}}));
  EXPECT_EQ(packed, (std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}));
  run(Packing::pack(packed.data(), {row.data(), DataType::float32, {4, 3}, {1, 0}}));
  EXPECT_EQ(packed, (std::vector<float>{1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}));
}

TEST(Pack, APieceIsBoundedWhateverTheLayout) {
  constexpr std::int64_t kPiece = 4096, kElements = 1 << 18;
  std::vector<float> memory(2 * kElements), packed(kElements);
  struct Case {
    Shape shape;
    Strides strides;
  };
  for (const Case& c : {Case{{kElements}, {1}}, Case{{kElements}, {2}}, Case{{512, 512}, {1, 512}},
                        Case{{2, kElements / 2}, {1, 2}}, Case{{kElements / 2, 2}, {1, kElements / 2}},
                        Case{{512, 512}, {1024, 1}}, Case{{2, kElements / 2}, {kElements, 1}}}) {
    Packing packing =
        Packing::pack(packed.data(), {memory.data(), DataType::float32, c.shape, c.strides}, kPiece);
    std::int64_t sum = 0, largest = 0;
    while (const std::int64_t bytes = packing.advance()) {
      sum += bytes;
      largest = std::max(largest, bytes);
    }
    EXPECT_EQ(sum, kElements * 4) << to_string(c.shape);
    EXPECT_LE(largest, 8 * kPiece) << to_string(c.shape);
  }
}

TEST(CopyBytes, CopiesAnyLengthAndAlignment) {
  std::vector<std::byte> from(10'000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7);
  const std::vector<std::byte> unchanged = from;
  for (std::size_t length : {0, 1, 63, 64, 2048, 2049, 2111, 2112, 9'000}) {
    for (std::size_t shift : {0, 1, 13, 31, 32, 64}) {
      std::vector<std::byte> to(10'000, std::byte{1}), expected = to;
      std::copy_n(from.data() + 2 * shift, length, expected.data() + shift);
      copy_bytes(to.data() + shift, from.data() + 2 * shift, length);
      ASSERT_EQ(to, expected) << length << " bytes at " << shift;
      std::ranges::fill(to, std::byte{1});
      copy_out(to.data() + shift, from.data() + 2 * shift, length);
      ASSERT_EQ(to, expected) << length << " bytes at " << shift;
      std::ranges::fill(to, std::byte{1});
      copy_streamed(to.data() + shift, from.data() + 2 * shift, length);
      end_of_stream();
      ASSERT_EQ(to, expected) << length << " bytes at " << shift;
      std::ranges::fill(to, std::byte{1});
      take_out(to.data() + shift, from.data() + 2 * shift, length);
      ASSERT_EQ(to, expected) << length << " bytes at " << shift;
      ASSERT_EQ(from, unchanged);
    }
  }
}

}  // namespace
}  // namespace rueda::kernels
