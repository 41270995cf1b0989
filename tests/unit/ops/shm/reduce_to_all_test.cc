// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/reduce_to_all.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/base/host_buffer.h"
#include "core/base/operation_traits.h"
#include "ops/kernels/line.h"
#include "tests/support/conformance/values.h"

namespace rueda {
namespace {

// Of floats of several sizes, so that sums are rounded by the order that they are made in.
double number(DataType dtype, std::uint32_t random) {
  const bool whole =
      accumulator_of(dtype) == dtype && dtype != DataType::float32 && dtype != DataType::float64;
  return whole ? random % 30
               : std::ldexp(static_cast<int>(random % 2001) - 1000, static_cast<int>(random % 7) - 12);
}

// Copies of members, each in lines of its own, with lines around them that nobody may touch.
class Copies {
 public:
  Copies(DataType dtype, std::size_t members, std::size_t elements, std::size_t past_line)
      : bytes_(elements * size_of(dtype)), begin_(kernels::kLineBytes + past_line) {
    std::mt19937 random(7);
    for (std::size_t k = 0; k < members; ++k) {
      HostBuffer& buffer = buffers_.emplace_back(begin_ + bytes_ + 2 * kernels::kLineBytes);
      for (std::size_t i = 0; i < buffer.size() / size_of(dtype); ++i)
        set_value(dtype, buffer.data(), static_cast<std::int64_t>(i), number(dtype, random()));
      first_.emplace_back(buffer.data(), buffer.data() + buffer.size());
      values_.push_back(buffer.data() + begin_);
    }
  }

  void reduce(const ScaledReduction& reduction, Stores stores) {
    const std::vector<const std::byte*> sources(values_.begin(), values_.end());
    reduce_everywhere(reduction, sources, values_, bytes_ / size_of(reduction.dtype), stores);
  }

  std::vector<std::byte> result(std::size_t member) const {
    return {values_[member], values_[member] + bytes_};
  }

  bool kept_what_is_around(std::size_t member) const {
    const std::byte* now = buffers_[member].data();
    const std::vector<std::byte>& before = first_[member];
    const std::size_t end = begin_ + bytes_;
    return std::memcmp(now, before.data(), begin_) == 0 &&
           std::memcmp(now + end, before.data() + end, before.size() - end) == 0;
  }

 private:
  std::size_t bytes_;
  std::size_t begin_;
  std::vector<HostBuffer> buffers_;
  std::vector<std::vector<std::byte>> first_;
  std::vector<std::byte*> values_;
};

void expect_same(const ScaledReduction& reduction, std::size_t members, std::size_t elements,
                 std::size_t past_line) {
  Copies cached(reduction.dtype, members, elements, past_line);
  cached.reduce(reduction, {});
  for (std::size_t own = 0; own < members; ++own) {
    Copies streamed(reduction.dtype, members, elements, past_line);
    streamed.reduce(reduction, {true, own});
    for (std::size_t k = 0; k < members; ++k) {
      ASSERT_EQ(streamed.result(k), cached.result(0))
          << to_string(reduction.dtype) << " " << to_string(reduction.op) << ", " << members << " members, "
          << elements << " elements from " << past_line << ", of " << own << " into " << k;
      ASSERT_TRUE(streamed.kept_what_is_around(k)) << members << " " << elements << " " << past_line;
    }
  }
}

TEST(ReduceEverywhere, StreamsTheSameBits) {
  for (std::uint8_t number = 0; number < kDataTypeCount; ++number) {
    const DataType dtype = *data_type_from(number);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      for (const std::size_t members : {2, 3, 4, 5}) {
        for (const std::size_t elements : {0, 1, 15, 16, 64, 1000, 5000})
          expect_same({dtype, op}, members, elements, 0);
      }
    }
  }
}

TEST(ReduceEverywhere, StreamsWithFactors) {
  for (const DataType dtype : {DataType::float32, DataType::bfloat16, DataType::float16}) {
    for (const std::size_t members : {2, 3, 4}) {
      expect_same({dtype, ReduceOp::average, {}, {1.0, 3}}, members, 777, 0);
      expect_same({dtype, ReduceOp::sum, {0.5, 1}, {2.0, 1}}, members, 777, 0);
    }
  }
}

TEST(ReduceEverywhere, StreamsOnlyWhatBeginsAtALine) {
  for (const std::size_t members : {2, 3, 4}) {
    for (const std::size_t past_line : {4, 16, 32, 60})
      expect_same({DataType::float32, ReduceOp::sum}, members, 333, past_line);
  }
}

}  // namespace
}  // namespace rueda
