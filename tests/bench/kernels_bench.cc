// SPDX-License-Identifier: Apache-2.0
// Bytes read and written per second by the kernels, by dtype and level:
//   build/bin/kernels_bench --benchmark_counters_tabular=true
#include <benchmark/benchmark.h>

#include <string>

#include "core/base/host_buffer.h"
#include "ops/kernels/kernels.h"

namespace {

using rueda::DataType;
namespace kernels = rueda::kernels;

void combine(benchmark::State& state, std::string_view level, DataType dtype, std::size_t count) {
  const std::size_t wide = rueda::size_of(rueda::accumulator_of(dtype)), size = rueda::size_of(dtype);
  rueda::HostBuffer acc(count * wide), values(count * size);
  std::fill_n(acc.data(), acc.size(), std::byte{0});
  std::fill_n(values.data(), values.size(), std::byte{0});
  for (auto _ : state) {
    kernels::kernels_at(level, dtype).combine(rueda::ReduceOp::sum, acc.data(), values.data(), count, {});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(count * (2 * wide + size)));
}

}  // namespace

int main(int argc, char** argv) {
  for (std::string_view level : kernels::available_levels()) {
    for (DataType dtype : {DataType::float32, DataType::float64, DataType::bfloat16, DataType::float16, DataType::int8}) {
      for (std::size_t bytes : {8 << 10, 256 << 10}) {
        const std::string name = std::string(level) + "/" + std::string(rueda::to_string(dtype)) + "/" + std::to_string(bytes);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { combine(state, level, dtype, bytes / rueda::size_of(dtype)); });
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
