// SPDX-License-Identifier: Apache-2.0
#include "ops/doubling.h"

#include <bit>

namespace rueda {
namespace {

Rank largest_power(Rank size) { return static_cast<Rank>(std::bit_floor(static_cast<unsigned>(size))); }

}  // namespace

std::vector<DoublingStep> doubling_steps(Rank place, Rank size) {
  using Kind = DoublingStep::Kind;
  const Rank power = largest_power(size);
  if (place >= power) return {{Kind::give, place - power}, {Kind::take_result, place - power}};
  std::vector<DoublingStep> steps;
  const bool has_another = place + power < size;
  if (has_another) steps.push_back({Kind::take, place + power});
  for (Rank distance = 1; distance < power; distance *= 2)
    steps.push_back({Kind::exchange, place ^ distance});
  if (has_another) steps.push_back({Kind::give_result, place + power});
  return steps;
}

Rank doubling_rounds(Rank size) {
  const Rank power = largest_power(size);
  const auto rounds = static_cast<Rank>(std::bit_width(static_cast<unsigned>(power)) - 1);
  return power == size ? rounds : rounds + 2;
}

}  // namespace rueda
