// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/reduce_to_all.h"

#include <algorithm>
#include <array>

#include "ops/kernels/line.h"
#include "ops/kernels/pack.h"
#include "ops/schedules/reduction_tree.h"

namespace rueda {
namespace {

// So much of all is asked for at once: more lines than a core can wait for make each other late.
constexpr std::size_t kBlockBytes = 2048;
static_assert(kBlockBytes * sizeof(std::int32_t) <= ReductionTree::kBlockBytes);  // the averages of 8 bits

void fetch_all(std::span<const std::byte* const> copies, std::size_t begin, std::size_t bytes,
               bool to_write) {
  for (const std::byte* copy : copies) {
    for (std::size_t line = 0; line < bytes; line += kernels::kLineBytes) {
      if (to_write) {
        kernels::fetch_to_write(copy + begin + line);
      } else {
        kernels::fetch(copy + begin + line);
      }
    }
  }
}

// The loop that does it in one pass, where there is one.
kernels::Kernels::SumEverywhere one_pass(const ScaledReduction& reduction, std::size_t copies) {
  const bool sums = reduction.op == ReduceOp::sum || reduction.op == ReduceOp::average;
  if (!sums || !reduction.prescale.identity()) return nullptr;
  const kernels::Kernels& kernels = *reduction.accumulation().values;
  return copies == 2 ? kernels.sum_of_two : copies == 4 ? kernels.sum_of_four : nullptr;
}

void reduce_in_blocks(const ScaledReduction& reduction, std::span<const std::byte* const> sources,
                      std::span<std::byte* const> destinations, std::size_t elements, Stores stores) {
  const kernels::Kernels& kernels = *reduction.accumulation().values;
  const std::size_t size = size_of(reduction.dtype), block = kBlockBytes / size;
  const ReductionTree tree(reduction);
  std::byte* const own = destinations[stores.own];
  alignas(kernels::kLineBytes) std::array<std::byte, ReductionTree::kBlockBytes> sum;
  for (std::size_t begin = 0; begin < elements; begin += block) {
    const std::size_t part = std::min(block, elements - begin), next = begin + part;
    if (begin == 0) fetch_all(sources, 0, part * size, !stores.streamed);
    fetch_all(sources, next * size, std::min(block, elements - next) * size, !stores.streamed);
    tree.combine(sum.data(), sources, begin * size, part);
    kernels.store(own + begin * size, sum.data(), part, reduction.postscale);
    for (std::byte* destination : destinations) {
      if (destination == own) continue;
      if (stores.streamed) {
        kernels::copy_streamed(destination + begin * size, own + begin * size, part * size);
      } else {
        kernels::copy_bytes(destination + begin * size, own + begin * size, part * size);
      }
    }
  }
  if (stores.streamed) kernels::end_of_stream();
}

}  // namespace

void reduce_everywhere(const ScaledReduction& reduction, std::span<const std::byte* const> sources,
                       std::span<std::byte* const> destinations, std::size_t elements, Stores stores) {
  for (std::size_t i = 0; i < destinations.size(); ++i)
    stores.streamed &= i == stores.own || kernels::begins_line(destinations[i]);
  const auto sum = destinations.size() == sources.size() ? one_pass(reduction, sources.size()) : nullptr;
  if (sum == nullptr) return reduce_in_blocks(reduction, sources, destinations, elements, stores);
  std::array<const void*, 4> copies{};
  std::array<void*, 4> targets{};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    copies[i] = sources[i];
    targets[i] = destinations[i];
  }
  const unsigned others = ((1U << destinations.size()) - 1) & ~(1U << stores.own);
  sum(copies.data(), targets.data(), elements, reduction.postscale, stores.streamed ? others : 0);
}

void sum_up(const ScaledReduction& reduction, std::span<const std::byte* const> sources, std::byte* sums,
            std::size_t elements) {
  const std::size_t size = size_of(reduction.dtype), block = kBlockBytes / size;
  const std::size_t sum_size = reduction.accumulation().sum_size;
  const ReductionTree tree(reduction);
  for (std::size_t begin = 0; begin < elements; begin += block) {
    const std::size_t part = std::min(block, elements - begin), next = begin + part;
    if (begin == 0) fetch_all(sources, 0, part * size, true);
    fetch_all(sources, next * size, std::min(block, elements - next) * size, true);
    tree.combine(sums + begin * sum_size, sources, begin * size, part);
  }
}

}  // namespace rueda
