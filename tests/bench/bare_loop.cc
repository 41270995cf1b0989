// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bare_loop.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "ops/kernels/level.h"
#include "ops/kernels/line.h"
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

// The three loops over as many floats each.
template <class Level>
struct AllInOneBody {
  static constexpr std::size_t kAhead = 128;  // floats
  static constexpr std::size_t kVector = Level::kVectorBytes / sizeof(float);
  using Vector __attribute__((vector_size(Level::kVectorBytes))) = float;

  RUEDA_INLINE void run(float* shown, const float* given, float* mine, float* theirs, float* result,
                        const float* finished, std::size_t count) {
    for (std::size_t i = 0; i < count; i += kernels::kLineBytes / sizeof(float)) {
      kernels::fetch_to_write(theirs + i + kAhead);
      kernels::fetch_to_write(finished + i + kAhead);
      for (std::size_t at = i; at < i + kernels::kLineBytes / sizeof(float); at += kVector) {
        Vector values, sum, others;
        get(values, given + at);
        put(shown + at, values);
        get(sum, mine + at);
        get(others, theirs + at);
        sum += others;
        put(mine + at, sum);
        put(theirs + at, sum);
        get(values, finished + at);
        put(result + at, values);
      }
    }
  }
  RUEDA_INLINE void get(Vector& vector, const float* from) { __builtin_memcpy(&vector, from, sizeof vector); }
  RUEDA_INLINE void put(float* to, const Vector& vector) { __builtin_memcpy(to, &vector, sizeof vector); }
};

std::byte* bytes_at(float* values) { return reinterpret_cast<std::byte*>(values); }

}  // namespace

BareLoop::BareLoop(MemoryKind kind, std::size_t elements, std::size_t rank, TensorMemory* memory,
                   const Gather& gather)
    : in_place_(kind == MemoryKind::window),
      rank_(rank),
      elements_(elements),
      ordinary_(in_place_ ? nullptr : ordinary_memory(elements * sizeof(float))) {
  constexpr std::size_t kBefore = 4096;  // for the word
  TensorMemory::Block own;
  if (memory != nullptr)
    own = memory->share(kBefore + (in_place_ ? elements : kBuffers * kChunk) * sizeof(float));
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
  if (in_place_) return timed([this] { reduce_in_place(); });
  const double apart = timed([this] { one_after_the_other(); });
  if (all_.size() != 2 || elements_ < 4 * kShort) return apart;
  return std::min(apart, timed([this] { all_in_one_loop(); }));
}

template <class Loops>
double BareLoop::timed(Loops loops) {
  std::fill_n(in_place_ ? all_[rank_].values : ordinary(), elements_, static_cast<float>(rank_));
  meet();
  const auto start = std::chrono::steady_clock::now();
  meet();
  loops();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  meet();
  return seconds;
}

void BareLoop::reduce_in_place() {
  const auto [begin, end] = slice_of(elements_, rank_, all_.size());
  std::array<std::byte*, 4> places{};
  for (std::size_t i = 0; i < all_.size(); ++i) places[i] = bytes_at(all_[i].values + begin);
  const bool streamed = stores_.streams();
  const Time started = clock_now();
  sum(std::span(places).first(all_.size()), end - begin, streamed);
  stores_.took(streamed, (end - begin) * sizeof(float) * all_.size(), clock_now() - started);
}

void BareLoop::one_after_the_other() {
  const std::size_t count = (elements_ + kChunk - 1) / kChunk;
  for (std::size_t number = 0; number < count + 2; ++number) {
    if (number >= 2) unpack(chunk(number - 2, kChunk));  // whose buffer the next one takes
    if (number < count) pack(chunk(number, kChunk));
    if (number >= 1 && number < count + 1) add(chunk(number - 1, kChunk));
  }
}

// Of whole chunks; the rest of the tensor is left out.
void BareLoop::all_in_one_loop() {
  static const auto loop = kernels::widest<AllInOneBody, float*, const float*, float*, float*, float*,
                                           const float*, std::size_t>();
  float* const tensor = ordinary();
  const std::size_t others = rank_ == 0 ? kShort / 2 : 0;  // in a chunk: what the other rank adds
  const std::size_t count = elements_ / kShort;
  for (std::size_t number = 2; number < count + 2; ++number) {
    const Chunk packed = chunk(std::min(number, count - 1), kShort);
    const Chunk added = chunk(std::min(number, count) - 1, kShort), unpacked = chunk(number - 2, kShort);
    loop(shown(rank_, packed, kShort) + others, tensor + packed.begin + others, tensor + added.from,
         shown(1 - rank_, added, kShort) + (added.from - added.begin), tensor + unpacked.begin + others,
         shown(rank_, unpacked, kShort) + others, kShort / 2);
  }
}

BareLoop::Chunk BareLoop::chunk(std::size_t number, std::size_t size) const {
  const std::size_t begin = number * size, end = std::min(begin + size, elements_);
  const auto [from, to] = slice_of(end - begin, rank_, all_.size());
  return {number, begin, end, begin + from, begin + to};
}

float* BareLoop::shown(std::size_t rank, const Chunk& chunk, std::size_t size) const {
  return all_[rank].values + chunk.number % kBuffers * size;
}

float* BareLoop::ordinary() const { return reinterpret_cast<float*>(ordinary_.get()); }

void BareLoop::pack(const Chunk& chunk) {
  const float* const tensor = ordinary();
  float* const buffer = shown(rank_, chunk, kChunk);
  kernels::copy_bytes(buffer, tensor + chunk.begin, (chunk.from - chunk.begin) * sizeof(float));
  kernels::copy_bytes(buffer + (chunk.to - chunk.begin), tensor + chunk.to,
                      (chunk.end - chunk.to) * sizeof(float));
}

void BareLoop::add(const Chunk& chunk) {
  std::array<std::byte*, 4> places{};
  for (std::size_t i = 0; i < all_.size(); ++i)
    places[i] = bytes_at(shown(i, chunk, kChunk) + (chunk.from - chunk.begin));
  places[rank_] = bytes_at(ordinary() + chunk.from);
  sum(std::span(places).first(all_.size()), chunk.to - chunk.from, false);
}

void BareLoop::unpack(const Chunk& chunk) {
  float* const tensor = ordinary();
  const float* const buffer = shown(rank_, chunk, kChunk);
  kernels::copy_out(tensor + chunk.begin, buffer, (chunk.from - chunk.begin) * sizeof(float));
  kernels::copy_out(tensor + chunk.to, buffer + (chunk.to - chunk.begin),
                    (chunk.end - chunk.to) * sizeof(float));
}

void BareLoop::sum(std::span<std::byte* const> places, std::size_t elements, bool streamed) const {
  std::array<const std::byte*, 4> copies{};
  std::ranges::copy(places, copies.begin());
  reduce_everywhere({DataType::float32, ReduceOp::sum}, std::span(copies).first(places.size()), places,
                    elements, {streamed, rank_});
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
