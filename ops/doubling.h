// SPDX-License-Identifier: Apache-2.0
// Recursive doubling: who exchanges what with whom, one after the other. Pure arithmetic.
//
// In round i the places v and v XOR 2^i exchange what they have combined so far: after log2 n rounds all have
// everything. Where n is no power of two, the places from the largest power of two P on first give theirs to
// v - P, and get the result last. Whoever stands lower is on the left, so both sides of an exchange compute
// the same bits. For a power of two the order is that of tree_order.h: ((0+1)+(2+3)).
#pragma once

#include <vector>

#include "core/base/types.h"

namespace rueda {

struct DoublingStep {
  enum class Kind {
    give,         // what is here to `peer`, which combines it with its own
    take,         // the other side of it
    exchange,     // both
    give_result,  // it is complete here
    take_result,
  };
  Kind kind = Kind::exchange;
  Rank peer = 0;  // a place

  bool sends() const { return kind != Kind::take && kind != Kind::take_result; }
  bool receives() const { return kind != Kind::give && kind != Kind::give_result; }
  bool of_result() const { return kind == Kind::give_result || kind == Kind::take_result; }
};

// What `place` of `size` does.
std::vector<DoublingStep> doubling_steps(Rank place, Rank size);

// How many messages follow one another, with those of ranks beyond a power of two.
Rank doubling_rounds(Rank size);

}  // namespace rueda
