// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/reduce_everywhere.h"

#include <algorithm>
#include <array>

#include "ops/kernels/pack.h"
#include "ops/tree_order.h"

namespace rueda {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kBlockElements = 1024;
constexpr std::size_t kCopyBlock = 4096;  // bytes

void want_to_write(const std::byte* from, std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += kLine) __builtin_prefetch(from + line, 1);
}

// Calls deliver(where, sum, elements) for each block of accumulators.
template <class Deliver>
void for_each_sum(const ScaledReduction& reduction, std::span<std::byte* const> copies, std::size_t elements,
                  Deliver deliver) {
  const TreeOrder tree(reduction);
  const std::size_t size = size_of(reduction.dtype);
  alignas(kLine) std::array<std::byte, TreeOrder::kBlockBytes> sum;
  for (std::byte* copy : copies) want_to_write(copy, std::min(elements, kBlockElements) * size);
  for (std::size_t begin = 0; begin < elements; begin += kBlockElements) {
    const std::size_t part = std::min(kBlockElements, elements - begin);
    const std::size_t next = begin + part, ahead = std::min(kBlockElements, elements - next);
    for (std::byte* copy : copies) want_to_write(copy + next * size, ahead * size);
    tree.combine(sum.data(), copies, begin * size, part);
    deliver(begin * size, sum.data(), part);
  }
}

}  // namespace

void reduce_everywhere(const ScaledReduction& reduction, std::span<std::byte* const> copies,
                       std::size_t elements) {
  const kernels::Kernels& kernels = kernels::kernels_for(reduction.dtype);
  for_each_sum(reduction, copies, elements, [&](std::size_t where, const std::byte* sum, std::size_t part) {
    std::byte* first = copies.front() + where;
    kernels.store(first, sum, part, reduction.postscale);
    for (std::byte* copy : copies.subspan(1))
      kernels::copy_bytes(copy + where, first, part * size_of(reduction.dtype));
  });
}

void reduce_into(std::byte* output, const ScaledReduction& reduction, std::span<std::byte* const> copies,
                 std::size_t elements) {
  const kernels::Kernels& kernels = kernels::kernels_for(reduction.dtype);
  for_each_sum(reduction, copies, elements, [&](std::size_t where, const std::byte* sum, std::size_t part) {
    kernels.store(output + where, sum, part, reduction.postscale);
  });
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
