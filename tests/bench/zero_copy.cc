// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/zero_copy.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace rueda::bench {

ZeroCopy::ZeroCopy(std::shared_ptr<std::byte> own, Rank rank, std::vector<ZeroCopyTensor> tensors,
                   std::size_t elements)
    : own_(std::move(own)),
      rank_(static_cast<std::size_t>(rank)),
      tensors_(std::move(tensors)),
      elements_(elements),
      sum_(tensors_.size() == 2 ? kernels::kernels_for(DataType::float32).sum_of_two
                                : kernels::kernels_for(DataType::float32).sum_of_four) {
  meet();
}

double ZeroCopy::seconds() {
  std::fill_n(tensors_[rank_].values, elements_, static_cast<float>(rank_));
  const std::size_t share = (elements_ + tensors_.size() - 1) / tensors_.size();
  const std::size_t begin = std::min(elements_, rank_ * share), end = std::min(elements_, begin + share);
  std::array<void*, 4> places{};
  std::ranges::transform(tensors_, places.begin(),
                         [begin](const ZeroCopyTensor& tensor) { return tensor.values + begin; });
  std::array<const void*, 4> copies{};
  std::ranges::copy(places, copies.begin());
  meet();
  const auto start = std::chrono::steady_clock::now();
  meet();
  sum_(copies.data(), places.data(), end - begin, {});
  meet();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void ZeroCopy::meet() {
  tensors_[rank_].arrived->store(++met_, std::memory_order_release);
  for (const ZeroCopyTensor& tensor : tensors_) {
    while (tensor.arrived->load(std::memory_order_acquire) < met_) __builtin_ia32_pause();
  }
}

}  // namespace rueda::bench
