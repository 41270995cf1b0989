// SPDX-License-Identifier: Apache-2.0
// Recursive doubling and halving: who exchanges what with whom, one after the other. Pure arithmetic.
//
// Doubling: in round i indices v and v XOR 2^i exchange their values combined so far. After log2 n rounds all
// have everything. If n is no power of two, P is the largest one below n. The indices from P on first give
// their values to v - P, and get the result last.
//
// Halving, for a power of two: the vector is cut into n segments. In round i the same indices exchange halves
// of the segments that both still combine, each keeping the other half; after log2 n rounds each has one
// segment complete, and the rounds are gone back to gather them. Twice the messages, and of all bytes
// 2 (n-1)/n.
//
//                0        1        2        3
//   round 0   01..     ..23     01..     ..23     the segments that an index has combined with its peer's
//   round 1   0...     ..2.     .1..     ...3     ... complete
//
// Whoever stands lower is on the left, so both sides of an exchange compute the same bits. For a power of two
// the order is that of reduction_tree.h either way: ((0+1)+(2+3)).
#pragma once

#include <vector>

#include "rueda/types.h"

namespace rueda {

// Of the vector, those from `begin` to before `end`.
struct Segments {
  Rank begin = 0;
  Rank end = 1;
  friend bool operator==(const Segments&, const Segments&) = default;
};

struct PairStep {
  enum class Kind {
    give,             // what is here to `peer`, which combines it with its own
    take,             // the other side of it
    exchange,         // both
    give_result,      // it is complete here
    take_result,      // the other side of it
    exchange_result,  // both
  };
  Kind kind = Kind::exchange;
  Rank peer = 0;  // an index
  Segments sent;
  Segments received;  // from then on combined, or complete, here

  bool sends() const { return kind != Kind::take && kind != Kind::take_result; }
  bool receives() const { return kind != Kind::give && kind != Kind::give_result; }
  bool of_result() const {
    return kind == Kind::give_result || kind == Kind::take_result || kind == Kind::exchange_result;
  }
};

// The steps of `index` of `size` with a vector of one segment.
std::vector<PairStep> doubling_steps(Rank index, Rank size);
// ... of `size` segments. `size` is a power of two.
std::vector<PairStep> halving_steps(Rank index, Rank size);

// How many messages of doubling follow one another, with those of ranks beyond a power of two.
Rank doubling_rounds(Rank size);

}  // namespace rueda
