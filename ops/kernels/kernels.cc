// SPDX-License-Identifier: Apache-2.0
#include "ops/kernels/kernels.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/error.h"
#include "core/base/operation_traits.h"
#include "ops/kernels/arithmetic.h"
#include "ops/kernels/average.h"
#include "ops/kernels/everywhere.h"
#include "ops/kernels/half.h"
#include "ops/kernels/square_sum.h"

namespace rueda::kernels {
namespace {

template <class Level, class T>
double square_sum(const void* values, std::size_t count) {
  SquareLanes lanes{};
  Level::template run<SquareSumBody<T>>(&lanes, static_cast<const T*>(values), count);
  return sum_of(lanes);
}

template <class Level, class T>
constexpr Kernels full_width() {
  Kernels kernels{copy_scaled<Level, T>,
                  combine_scaled<Level, T, Same<T>>,
                  copy_scaled<Level, T>,
                  sum_everywhere<Level, T, Same<T>, 2>,
                  sum_everywhere<Level, T, Same<T>, 4>,
                  nullptr};
  if constexpr (std::is_floating_point_v<T>) kernels.square_sum = square_sum<Level, T>;
  return kernels;
}

// 16-bit floats are converted and combined in one pass, save where the conversion is a loop of its own: then
// blocks are converted in first-level cache.
constexpr std::size_t kBlock = 512;

template <class Level, class Format>
struct SixteenBit {
  static constexpr bool kOwnLoop = std::is_same_v<Format, Float16> && Level::kHasF16c;

  static void widen(float* to, const std::uint16_t* from, std::size_t count) {
    if constexpr (kOwnLoop) {
      widen_float16_f16c(to, from, count);
    } else {
      Level::template run<WidenBody<Format>>(to, from, count);
    }
  }
  static void narrow(std::uint16_t* to, const float* from, std::size_t count) {
    if constexpr (kOwnLoop) {
      narrow_float16_f16c(to, from, count);
    } else {
      Level::template run<NarrowBody<Format>>(to, from, count);
    }
  }

  static void load(void* acc, const void* values, std::size_t count, Scale scale) {
    for (std::size_t i = 0; i < count; i += kBlock) {
      const std::size_t part = std::min(kBlock, count - i);
      float* sums = static_cast<float*>(acc) + i;
      widen(sums, static_cast<const std::uint16_t*>(values) + i, part);
      copy_scaled<Level, float>(sums, sums, part, scale);
    }
  }
  static void combine(ReduceOp op, void* acc, const void* values, std::size_t count, Scale scale) {
    if constexpr (!kOwnLoop) return combine_scaled<Level, float, Format>(op, acc, values, count, scale);
    alignas(64) std::array<float, kBlock> block;
    for (std::size_t i = 0; i < count; i += kBlock) {
      const std::size_t part = std::min(kBlock, count - i);
      widen(block.data(), static_cast<const std::uint16_t*>(values) + i, part);
      combine_scaled<Level, float>(op, static_cast<float*>(acc) + i, block.data(), part, scale);
    }
  }
  static void store(void* values, const void* acc, std::size_t count, Scale scale) {
    alignas(64) std::array<float, kBlock> block;
    for (std::size_t i = 0; i < count; i += kBlock) {
      const std::size_t part = std::min(kBlock, count - i);
      const float* sums = static_cast<const float*>(acc) + i;
      if (!scale.identity()) {
        copy_scaled<Level, float>(block.data(), sums, part, scale);
        sums = block.data();
      }
      narrow(static_cast<std::uint16_t*>(values) + i, sums, part);
    }
  }
  static double square_sum(const void* values, std::size_t count) {
    static_assert(kBlock % kSquareLanes == 0);
    alignas(64) std::array<float, kBlock> block;
    SquareLanes lanes{};
    for (std::size_t i = 0; i < count; i += kBlock) {
      const std::size_t part = std::min(kBlock, count - i);
      widen(block.data(), static_cast<const std::uint16_t*>(values) + i, part);
      Level::template run<SquareSumBody<float>>(&lanes, static_cast<const float*>(block.data()), part);
    }
    return sum_of(lanes);
  }
  static constexpr Kernels table() {
    if constexpr (std::is_same_v<Format, Float16>) {
      return {load, combine, store, nullptr, nullptr, square_sum};
    } else {
      return {load,
              combine,
              store,
              sum_everywhere<Level, float, Format, 2>,
              sum_everywhere<Level, float, Format, 4>,
              square_sum};
    }
  }
};

// In the order of DataType.
template <class Level>
constexpr std::array<Kernels, kDataTypeCount> kTable{
    full_width<Level, std::uint8_t>(),    full_width<Level, std::int8_t>(),
    full_width<Level, std::int16_t>(),    full_width<Level, std::int32_t>(),
    full_width<Level, std::int64_t>(),    SixteenBit<Level, Float16>::table(),
    SixteenBit<Level, Bfloat16>::table(), full_width<Level, float>(),
    full_width<Level, double>(),          full_width<Level, Flag>()};

// Integers come first in DataType, and in its order here.
constexpr std::size_t kIntegers = 5;
static_assert(static_cast<std::size_t>(DataType::int64) + 1 == kIntegers);

template <class Level>
constexpr std::array<Kernels, kIntegers> kAverages{
    Averaging<Level, std::uint8_t>::table(), Averaging<Level, std::int8_t>::table(),
    Averaging<Level, std::int16_t>::table(), Averaging<Level, std::int32_t>::table(),
    Averaging<Level, std::int64_t>::table()};

constexpr Kernels kSumsOfInt64 = SumsOfInt64::table();

struct NamedTable {
  std::string_view name;
  const std::array<Kernels, kDataTypeCount>* kernels;
  const std::array<Kernels, kIntegers>* averages;

  const Kernels& at(DataType dtype) const { return (*kernels)[static_cast<std::size_t>(dtype)]; }
  Accumulation accumulation(DataType dtype, ReduceOp op) const {
    if (op != ReduceOp::average || !is_integer(dtype)) return in(accumulator_of(dtype), at(dtype));
    const Kernels& values = (*averages)[static_cast<std::size_t>(dtype)];
    if (dtype == DataType::int64) return {&values, &kSumsOfInt64, sizeof(Int128)};
    return in(dtype == DataType::int32 ? DataType::float64 : DataType::int32, values);
  }

 private:
  Accumulation in(DataType sum, const Kernels& values) const { return {&values, &at(sum), size_of(sum)}; }
};

// Best first.
const std::vector<NamedTable>& available_tables() {
  static const std::vector<NamedTable> tables = [] {
    std::vector<NamedTable> found;
    if (Avx512::available()) found.push_back({Avx512::kName, &kTable<Avx512>, &kAverages<Avx512>});
    if (Avx2::available()) found.push_back({Avx2::kName, &kTable<Avx2>, &kAverages<Avx2>});
    found.push_back({Base::kName, &kTable<Base>, &kAverages<Base>});
    return found;
  }();
  return tables;
}

const NamedTable& table_at(std::string_view level) {
  const auto found = std::ranges::find(available_tables(), level, &NamedTable::name);
  RUEDA_ASSERT(found != available_tables().end());
  return *found;
}

using Accumulations = std::array<std::array<Accumulation, kReduceOpCount>, kDataTypeCount>;

Accumulations all_accumulations() {
  Accumulations all;
  for (std::uint8_t dtype = 0; dtype < kDataTypeCount; ++dtype) {
    for (std::uint8_t op = 0; op < kReduceOpCount; ++op) {
      all[dtype][op] =
          available_tables().front().accumulation(static_cast<DataType>(dtype), static_cast<ReduceOp>(op));
    }
  }
  return all;
}

}  // namespace

const Kernels& kernels_for(DataType dtype) {
  static const auto& best = *available_tables().front().kernels;
  return best[static_cast<std::size_t>(dtype)];
}

const Accumulation& accumulation_of(DataType dtype, ReduceOp op) {
  static const Accumulations all = all_accumulations();
  return all[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
}

std::string_view active_level() { return available_tables().front().name; }

std::span<const std::string_view> available_levels() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const NamedTable& table : available_tables()) list.push_back(table.name);
    return list;
  }();
  return names;
}

const Kernels& kernels_at(std::string_view level, DataType dtype) { return table_at(level).at(dtype); }

Accumulation accumulation_at(std::string_view level, DataType dtype, ReduceOp op) {
  return table_at(level).accumulation(dtype, op);
}

}  // namespace rueda::kernels
