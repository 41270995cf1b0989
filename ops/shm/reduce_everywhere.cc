// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/reduce_everywhere.h"

#include <algorithm>
#include <array>

#include "ops/kernels/pack.h"
#include "ops/tree_order.h"

namespace rueda {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kBlockElements = TreeOrder::kBlockBytes / sizeof(double);
constexpr std::size_t kCopyBlock = 4096;  // bytes

void want_to_write(const std::byte* from, std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += kLine) __builtin_prefetch(from + line, 1);
}

}  // namespace

void reduce_everywhere(const ScaledReduction& reduction, std::span<const std::byte* const> sources,
                       std::span<std::byte* const> destinations, std::size_t elements) {
  const kernels::Kernels& kernels = kernels::kernels_for(reduction.dtype);
  const std::size_t size = size_of(reduction.dtype);
  const TreeOrder tree(reduction);
  alignas(kLine) std::array<std::byte, TreeOrder::kBlockBytes> sum;
  auto fetch = [&](std::size_t begin, std::size_t count) {
    for (const std::byte* source : sources) want_to_write(source + begin * size, count * size);
    for (const std::byte* destination : destinations) want_to_write(destination + begin * size, count * size);
  };
  fetch(0, std::min(elements, kBlockElements));
  for (std::size_t begin = 0; begin < elements; begin += kBlockElements) {
    const std::size_t part = std::min(kBlockElements, elements - begin), next = begin + part;
    fetch(next, std::min(kBlockElements, elements - next));
    tree.combine(sum.data(), sources, begin * size, part);
    std::byte* first = destinations.front() + begin * size;
    kernels.store(first, sum.data(), part, reduction.postscale);
    for (std::byte* destination : destinations.subspan(1))
      kernels::copy_bytes(destination + begin * size, first, part * size);
  }
}

void copy_out(void* to, const void* from, std::size_t bytes) {
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  want_to_write(source, std::min(bytes, kCopyBlock));
  for (std::size_t begin = 0; begin < bytes; begin += kCopyBlock) {
    const std::size_t part = std::min(kCopyBlock, bytes - begin);
    const std::size_t next = begin + part;
    want_to_write(source + next, std::min(kCopyBlock, bytes - next));
    kernels::copy_bytes(target + begin, source + begin, part);
  }
}

}  // namespace rueda
