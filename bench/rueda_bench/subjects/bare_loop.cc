// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/subjects/bare_loop.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "ops/kernels/pack.h"
#include "ops/shm/reduce_to_all.h"

namespace rueda::bench {
namespace {

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

BareLoop::BareLoop(MemoryKind kind, std::size_t elements, std::size_t rank, SymmetricMemory* memory,
                   const Gather& gather)
    : in_place_(kind == MemoryKind::window),
      rank_(rank),
      elements_(elements),
      ordinary_(in_place_ ? nullptr : ordinary_memory(elements * sizeof(float))) {
  constexpr std::size_t kBefore = 4096;  // for the words
  SymmetricMemory::Block own;
  if (memory != nullptr)
    own = memory->share(kBefore + (in_place_ ? elements : kBuffers * kChunk) * sizeof(float));
  const std::vector<std::string> handles = gather(own.handle);
  if (handles.size() != 2 && handles.size() != 4) {
    throw std::runtime_error(
        fmt::format("--limit: its loops are of 2 or 4 ranks, here are {}; start so many (ruedarun -np 2), or "
                    "leave it out",
                    handles.size()));
  }
  for (const std::string& handle : handles) {
    std::shared_ptr<std::byte> shown = memory != nullptr ? memory->open(handle) : nullptr;
    if (!shown)
      throw std::runtime_error(
          "--limit: the ranks share no memory; are all on one host, with RUEDA_SHM=1, and "
          "is there address space (ulimit -v)?");
    std::byte* const data = shown.get();
    all_.push_back(
        {std::move(shown), reinterpret_cast<float*>(data + kBefore), reinterpret_cast<Words*>(data)});
  }
  start_ = StartLine(true, static_cast<int>(handles.size()));
  if (handles.size() > static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN))) polls_ = 20;
  barrier();
}

double BareLoop::seconds(const Fill& fill) {
  fill(bytes_at(in_place_ ? all_[rank_].values : ordinary()));
  TimedStores stores(in_place_ ? stores_.in_place : stores_.staged);
  StartLine::await(agreed_start());
  const auto start = std::chrono::steady_clock::now();
  in_place_ ? reduce_in_place(stores) : reduce_staged(stores);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  stores.tell(elements_ * sizeof(float));
  barrier();
  return seconds;
}

void BareLoop::reduce_in_place(TimedStores& stores) {
  const auto [begin, end] = slice_of(elements_, rank_, all_.size());
  auto reduce = [&](std::size_t from, std::size_t elements) {
    std::array<std::byte*, 4> slices{};
    for (std::size_t i = 0; i < all_.size(); ++i) slices[i] = bytes_at(all_[i].values + from);
    sum(std::span(slices).first(all_.size()), elements, stores.streamed());
  };
  barrier();
  {
    const TimedStores::Timing timing(stores);
    const bool whole = elements_ > kFromTheEnd;
    for (std::size_t left = end - begin, part = 0; left > 0; left -= part) {
      part = whole ? left : (left - 1) % kChunk + 1;  // the others begin at lines
      reduce(begin + left - part, part);
    }
  }
  barrier();
}

// Each chunk is packed while the one before waits for the others; from the end on, as ours.
void BareLoop::reduce_staged(TimedStores& stores) {
  const std::size_t count = (elements_ + kChunk - 1) / kChunk;
  for (std::size_t number = 0; number <= count; ++number) {
    if (number < count) {
      const TimedStores::Timing timing(stores);
      pack(chunk(number), stores);
    }
    if (number < count) tell(&Words::packed, staged_ + number + 1);
    if (number == 0) continue;
    await(&Words::packed, staged_ + number);
    {
      const TimedStores::Timing timing(stores);
      add(chunk(number - 1), stores.streamed());
    }
    tell(&Words::added, staged_ + number);
    await(&Words::added, staged_ + number);
    unpack(chunk(number - 1));
  }
  staged_ += count;
}

BareLoop::Chunk BareLoop::chunk(std::size_t number) const {
  const std::size_t count = (elements_ + kChunk - 1) / kChunk;
  const std::size_t begin = (count - 1 - number) * kChunk, end = std::min(begin + kChunk, elements_);
  const auto [from, to] = slice_of(end - begin, rank_, all_.size());
  return {number, begin, end, begin + from, begin + to};
}

float* BareLoop::shown(std::size_t rank, const Chunk& chunk) const {
  return all_[rank].values + chunk.number % kBuffers * kChunk;
}

float* BareLoop::ordinary() const { return reinterpret_cast<float*>(ordinary_.get()); }

void BareLoop::pack(const Chunk& chunk, const TimedStores& stores) {
  const float* const tensor = ordinary();
  float* const buffer = shown(rank_, chunk);
  stores.copy(buffer, tensor + chunk.begin, (chunk.from - chunk.begin) * sizeof(float));
  stores.copy(buffer + (chunk.to - chunk.begin), tensor + chunk.to, (chunk.end - chunk.to) * sizeof(float));
}

void BareLoop::add(const Chunk& chunk, bool streamed) {
  std::array<std::byte*, 4> slices{};
  for (std::size_t i = 0; i < all_.size(); ++i)
    slices[i] = bytes_at(shown(i, chunk) + (chunk.from - chunk.begin));
  slices[rank_] = bytes_at(ordinary() + chunk.from);
  sum(std::span(slices).first(all_.size()), chunk.to - chunk.from, streamed);
}

void BareLoop::unpack(const Chunk& chunk) {
  float* const tensor = ordinary();
  const float* const buffer = shown(rank_, chunk);
  kernels::copy_out(tensor + chunk.begin, buffer, (chunk.from - chunk.begin) * sizeof(float));
  kernels::copy_out(tensor + chunk.to, buffer + (chunk.to - chunk.begin),
                    (chunk.end - chunk.to) * sizeof(float));
}

void BareLoop::sum(std::span<std::byte* const> slices, std::size_t elements, bool streamed) const {
  std::array<const std::byte*, 4> copies{};
  std::ranges::copy(slices, copies.begin());
  reduce_everywhere({DataType::float32, ReduceOp::sum}, std::span(copies).first(slices.size()), slices,
                    elements, {streamed, rank_});
}

void BareLoop::tell(Word word, std::uint64_t value) {
  (all_[rank_].words->*word).store(value, std::memory_order_release);
}

void BareLoop::await(Word word, std::uint64_t value) const {
  for (const Shown& each : all_) {
    for (int in_vain = 0; (each.words->*word).load(std::memory_order_acquire) < value; ++in_vain) {
      __builtin_ia32_pause();
      if (in_vain > polls_) sched_yield();  // somebody else has the other's core
    }
  }
}

void BareLoop::barrier() {
  tell(&Words::arrived, ++barriers_);
  await(&Words::arrived, barriers_);
}

std::int64_t BareLoop::agreed_start() {
  all_[rank_].words->proposal.store(start_.proposal(), std::memory_order_relaxed);
  barrier();
  std::int64_t last = 0;
  for (const Shown& each : all_) last = std::max(last, each.words->proposal.load(std::memory_order_relaxed));
  return last;
}

}  // namespace rueda::bench
