// SPDX-License-Identifier: Apache-2.0
#include "ops/schedules/recursive_doubling.h"

#include <bit>
#include <utility>

namespace rueda {
namespace {

Rank largest_power(Rank size) { return static_cast<Rank>(std::bit_floor(static_cast<unsigned>(size))); }

}  // namespace

std::vector<PairStep> doubling_steps(Rank index, Rank size) {
  using Kind = PairStep::Kind;
  const Rank power = largest_power(size);
  if (index >= power)
    return {{Kind::give, index - power, {}, {}}, {Kind::take_result, index - power, {}, {}}};
  std::vector<PairStep> steps;
  const bool has_another = index + power < size;
  if (has_another) steps.push_back({Kind::take, index + power, {}, {}});
  for (Rank distance = 1; distance < power; distance *= 2)
    steps.push_back({Kind::exchange, index ^ distance, {}, {}});
  if (has_another) steps.push_back({Kind::give_result, index + power, {}, {}});
  return steps;
}

std::vector<PairStep> halving_steps(Rank index, Rank size) {
  std::vector<PairStep> steps;
  Segments own{0, size};
  for (Rank distance = 1; distance < size; distance *= 2) {
    const Rank middle = own.begin + (own.end - own.begin) / 2;
    Segments kept{own.begin, middle}, given{middle, own.end};
    if ((index & distance) != 0) std::swap(kept, given);
    steps.push_back({PairStep::Kind::exchange, index ^ distance, given, kept});
    own = kept;
  }
  for (std::size_t round = steps.size(); round-- > 0;) {
    const PairStep there = steps[round];
    steps.push_back({PairStep::Kind::exchange_result, there.peer, there.received, there.sent});
  }
  return steps;
}

Rank doubling_rounds(Rank size) {
  const Rank power = largest_power(size);
  const auto rounds = static_cast<Rank>(std::bit_width(static_cast<unsigned>(power)) - 1);
  return power == size ? rounds : rounds + 2;
}

}  // namespace rueda
