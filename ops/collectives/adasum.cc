// SPDX-License-Identifier: Apache-2.0
#include "ops/collectives/adasum.h"

#include <algorithm>
#include <bit>

#include "core/base/operation_traits.h"
#include "ops/kernels/kernels.h"

namespace rueda {
namespace {

constexpr std::size_t kEach = 3;  // numbers of a tensor and pair: its Products

// A step computes about so many elements, of parts each of which costs as much as some elements more. Blocks
// begin where parts do, so that sums do not depend on steps.
constexpr std::int64_t kStepElements = 1 << 18;
constexpr std::int64_t kBlockElements = 1 << 14;
constexpr std::int64_t kCostOfBlock = 64;

}  // namespace

std::vector<std::vector<AdasumPair>> adasum_levels(Rank size) {
  const auto whole = static_cast<Rank>(std::bit_floor(static_cast<std::uint32_t>(size)));
  std::vector<std::vector<AdasumPair>> levels;
  if (size > whole) {
    auto& level = levels.emplace_back();
    for (Rank place = whole; place < size; ++place) level.push_back({place - whole, place});
  }
  for (Rank distance = 1; distance < whole; distance *= 2) {
    auto& level = levels.emplace_back();
    for (Rank place = 0; place < whole; place += 2 * distance) level.push_back({place, place + distance});
  }
  return levels;
}

double tree_sum(std::span<double> of_ranks) {
  for (std::size_t distance = 1; distance < of_ranks.size(); distance *= 2) {
    for (std::size_t place = 0; place + distance < of_ranks.size(); place += 2 * distance)
      of_ranks[place] += of_ranks[place + distance];
  }
  return of_ranks.front();
}

AdasumShare::AdasumShare(const Plan& plan, Rank place, Rank size)
    : plan_(plan),
      place_(place),
      size_(size),
      elements_(TensorSegments(plan, place, size).elements()),
      accumulator_(accumulator_of(plan.dtype)),
      accumulator_size_(static_cast<std::int64_t>(size_of(accumulator_))),
      levels_(adasum_levels(size)) {}

void AdasumShare::prepare(const Memory& memory) {
  if (prepared_) return;
  vectors_ =
      memory.get("its share of all vectors", static_cast<std::size_t>(size_ * elements_ * accumulator_size_));
  numbers_ = memory.get("products of vectors", most_numbers() * sizeof(double));
  prepared_ = true;
}

std::byte* AdasumShare::of(Rank place) const {
  return prepared_ ? vectors_.data() + place * elements_ * accumulator_size_ : nullptr;
}

void AdasumShare::load(Rank place, std::int64_t begin, const void* values, std::int64_t count) {
  kernels::kernels_for(plan_.dtype)
      .load(of(place) + begin * accumulator_size_, values, static_cast<std::size_t>(count),
            {plan_.prescale_factor, 1});
}

void AdasumShare::store(void* values, std::int64_t begin, std::int64_t count) const {
  kernels::kernels_for(plan_.dtype)
      .store(values, of(0) + begin * accumulator_size_, static_cast<std::size_t>(count),
             {plan_.postscale_factor, 1});
}

std::size_t AdasumShare::numbers(const Plan& plan, std::size_t pairs) {
  return kEach * pairs * plan.tensors.size();
}

std::size_t AdasumShare::most_numbers() const {
  std::size_t most = 0;
  for (std::size_t level = 0; level < levels_.size(); ++level) most = std::max(most, numbers(level));
  return most;
}

// Calls visit(number of pair and tensor, vectors of the pair, elements) for the next blocks of this level;
// false when all have been visited.
template <class Visit>
bool AdasumShare::advance(Visit visit) {
  const std::vector<AdasumPair>& pairs = levels_[level_];
  for (std::int64_t cost = 0; pair_ < pairs.size() && cost < kStepElements;) {
    const TensorSegments::Part part = TensorSegments::part(plan_, tensor_, place_, size_);
    const std::int64_t count = std::min(kBlockElements, part.count - done_);
    const std::int64_t at = (offset_ + done_) * accumulator_size_;
    if (count > 0) {
      visit(data() + kEach * (pair_ * plan_.tensors.size() + tensor_), of(pairs[pair_].into) + at,
            of(pairs[pair_].from) + at, static_cast<std::size_t>(count));
    }
    cost += count + kCostOfBlock;
    done_ += count;
    if (done_ < part.count) continue;
    done_ = 0;
    offset_ += part.count;
    if (++tensor_ < plan_.tensors.size()) continue;
    tensor_ = 0;
    offset_ = 0;
    ++pair_;
  }
  if (pair_ < pairs.size()) return true;
  pair_ = 0;
  return false;
}

bool AdasumShare::multiply() {
  if (multiplied_) return false;
  if (pair_ == 0 && tensor_ == 0 && done_ == 0) std::fill_n(data(), numbers(level_), 0.0);
  const kernels::AdasumKernels& kernels = kernels::adasum_kernels_for(accumulator_);
  multiplied_ = !advance([&](double* number, const std::byte* a, const std::byte* b, std::size_t count) {
    const kernels::Products products = kernels.products(a, b, count);
    number[0] += products.aa;
    number[1] += products.ab;
    number[2] += products.bb;
  });
  return !multiplied_;
}

bool AdasumShare::combine() {
  const kernels::AdasumKernels& kernels = kernels::adasum_kernels_for(accumulator_);
  const bool more = advance([&](const double* number, std::byte* a, const std::byte* b, std::size_t count) {
    kernels.combine(a, b, count, kernels::adasum_factors({number[0], number[1], number[2]}));
  });
  if (more) return true;
  ++level_;
  multiplied_ = false;
  return false;
}

}  // namespace rueda
