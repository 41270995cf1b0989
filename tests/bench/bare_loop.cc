// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bare_loop.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "ops/kernels/pack.h"
#include "ops/shm/reduce_everywhere.h"

namespace rueda::bench {
namespace {

constexpr int kMany = 10'000;

struct Slice {
  std::size_t begin;
  std::size_t end;
};

// The part of one rank, of whole lines.
Slice slice_of(std::size_t elements, std::size_t rank, std::size_t ranks) {
  constexpr std::size_t kLine = 16;
  const std::size_t share = ((elements + kLine - 1) / kLine + ranks - 1) / ranks * kLine;
  return {std::min(elements, rank * share), std::min(elements, (rank + 1) * share)};
}

std::byte* bytes_at(float* values) { return reinterpret_cast<std::byte*>(values); }

}  // namespace

BareLoop::BareLoop(MemoryKind kind, std::size_t elements, std::size_t rank, TensorMemory* memory,
                   const Gather& gather)
    : in_place_(kind == MemoryKind::window),
      rank_(rank),
      elements_(elements),
      ordinary_(in_place_ ? 0 : elements) {
  constexpr std::size_t kBefore = 4096;  // for the word
  TensorMemory::Block own;
  if (memory != nullptr) own = memory->share(kBefore + (in_place_ ? elements : 2 * kChunk) * sizeof(float));
  const std::vector<std::string> cards = gather(own.card);
  if (cards.size() != 2 && cards.size() != 4) throw std::runtime_error("--limit: of 2 or 4 ranks");
  for (const std::string& card : cards) {
    std::shared_ptr<std::byte> shown = memory != nullptr ? memory->open(card) : nullptr;
    if (!shown) throw std::runtime_error("--limit: the ranks share no memory");
    std::byte* const data = shown.get();
    all_.push_back({std::move(shown), reinterpret_cast<float*>(data + kBefore),
                    reinterpret_cast<std::atomic<std::uint64_t>*>(data)});
  }
  meet();
}

double BareLoop::seconds() {
  std::fill_n(in_place_ ? all_[rank_].values : ordinary_.data(), elements_, static_cast<float>(rank_));
  meet();
  const auto start = std::chrono::steady_clock::now();
  meet();
  if (in_place_) {
    reduce_in_place();
  } else {
    for (std::size_t begin = 0, number = 0; begin < elements_; begin += kChunk, ++number)
      reduce_chunk(begin, number % 2);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void BareLoop::reduce_in_place() {
  const auto [begin, end] = slice_of(elements_, rank_, all_.size());
  std::array<std::byte*, 4> places{};
  for (std::size_t i = 0; i < all_.size(); ++i) places[i] = bytes_at(all_[i].values + begin);
  sum(std::span(places).first(all_.size()), end - begin);
  meet();
}

// The chunk before the last in this buffer has been read: its readers have met since.
void BareLoop::reduce_chunk(std::size_t begin, std::size_t buffer) {
  const std::size_t elements = std::min(kChunk, elements_ - begin);
  const auto [from, to] = slice_of(elements, rank_, all_.size());
  float* const tensor = ordinary_.data() + begin;
  float* const shown = all_[rank_].values + buffer * kChunk;
  kernels::copy_bytes(shown, tensor, from * sizeof(float));
  kernels::copy_bytes(shown + to, tensor + to, (elements - to) * sizeof(float));
  meet();
  std::array<std::byte*, 4> places{};
  for (std::size_t i = 0; i < all_.size(); ++i) places[i] = bytes_at(all_[i].values + buffer * kChunk + from);
  places[rank_] = bytes_at(tensor + from);
  sum(std::span(places).first(all_.size()), to - from);
  meet();
  kernels::copy_out(tensor, shown, from * sizeof(float));
  kernels::copy_out(tensor + to, shown + to, (elements - to) * sizeof(float));
}

void BareLoop::sum(std::span<std::byte* const> places, std::size_t elements) {
  std::array<const std::byte*, 4> copies{};
  std::ranges::copy(places, copies.begin());
  reduce_everywhere({DataType::float32, ReduceOp::sum}, std::span(copies).first(places.size()), places,
                    elements);
}

void BareLoop::meet() {
  all_[rank_].arrived->store(++met_, std::memory_order_release);
  for (const Shown& each : all_) {
    for (int in_vain = 0; each.arrived->load(std::memory_order_acquire) < met_; ++in_vain) {
      __builtin_ia32_pause();
      if (in_vain > kMany) sched_yield();  // somebody else has the other's core
    }
  }
}

}  // namespace rueda::bench
