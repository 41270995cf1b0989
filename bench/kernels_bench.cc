// SPDX-License-Identifier: Apache-2.0
// Bytes read and written per second by the kernels, by level, dtype and operation, in first- and second-level
// cache:
//   build/bin/kernels_bench --benchmark_counters_tabular=true --benchmark_filter=avx2/bfloat16
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/host_buffer.h"
#include "core/base/operation_traits.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/pack.h"

namespace {

using rueda::DataType;
using rueda::HostBuffer;
using rueda::ReduceOp;
namespace kernels = rueda::kernels;

HostBuffer zeros(std::size_t bytes) {
  HostBuffer buffer(bytes);
  std::fill_n(buffer.data(), bytes, std::byte{0});
  return buffer;
}

enum class Work { load, sum, average, squares };

void run(benchmark::State& state, std::string_view level, DataType dtype, Work work, std::size_t bytes) {
  const ReduceOp op = work == Work::average ? ReduceOp::average : ReduceOp::sum;
  const kernels::Accumulation how = kernels::accumulation_at(level, dtype, op);
  const std::size_t wide = how.sum_size, size = rueda::size_of(dtype);
  const std::size_t count = bytes / size;
  const HostBuffer acc = zeros(count * wide), values = zeros(count * size);
  const kernels::Kernels& table = *how.values;
  for (auto _ : state) {
    switch (work) {
      case Work::load: table.load(acc.data(), values.data(), count, {}); break;
      case Work::sum: table.combine(ReduceOp::sum, acc.data(), values.data(), count, {}); break;
      case Work::average: table.store(values.data(), acc.data(), count, {1.0, 3}); break;
      case Work::squares: benchmark::DoNotOptimize(table.square_sum(values.data(), count)); break;
    }
    benchmark::ClobberMemory();
  }
  const std::size_t per_element = size + (work == Work::sum ? 2 * wide : work == Work::squares ? 0 : wide);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(count * per_element));
}

template <class Copy>
void copy(benchmark::State& state, std::size_t bytes, Copy copy) {
  const HostBuffer from = zeros(bytes), to = zeros(bytes);
  for (auto _ : state) {
    copy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * bytes));
}

void register_arithmetic(std::string_view level, DataType dtype, std::size_t bytes) {
  auto add = [&](const std::string& name, Work work) {
    const std::string full = std::string(level) + "/" + std::string(rueda::to_string(dtype)) + "/" + name +
                             "/" + std::to_string(bytes);
    benchmark::RegisterBenchmark(full.c_str(),
                                 [=](benchmark::State& state) { run(state, level, dtype, work, bytes); });
  };
  add("load", Work::load);
  add("sum", Work::sum);
  if (dtype != DataType::boolean) add("average", Work::average);
  if (rueda::is_floating_point(dtype)) add("squares", Work::squares);
}

}  // namespace

int main(int argc, char** argv) {
  for (std::size_t bytes : {std::size_t{8} << 10, std::size_t{256} << 10}) {
    for (std::string_view level : kernels::available_levels()) {
      for (std::uint8_t i = 0; i < rueda::kDataTypeCount; ++i)
        register_arithmetic(level, *rueda::data_type_from(i), bytes);
    }
    const std::string size = std::to_string(bytes);
    benchmark::RegisterBenchmark(("copy_bytes/" + size).c_str(),
                                 [=](benchmark::State& s) { copy(s, bytes, kernels::copy_bytes); });
    benchmark::RegisterBenchmark(("memcpy/" + size).c_str(),
                                 [=](benchmark::State& s) { copy(s, bytes, std::memcpy); });
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
