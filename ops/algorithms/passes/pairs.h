// SPDX-License-Identifier: Apache-2.0
// Every rank with every other: what goes to one while something comes from another.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "ops/algorithms/passes/algorithm.h"
#include "ops/link/chunked_transfer.h"

namespace rueda {

// Purpose: the messages of all distances, of which a few are under way at a time, so that nobody is flooded.
// Part of an Algorithm.
class Pairs {
 public:
  // Of the next distance.
  void add(ReceiveStream receive, SendStream send) {
    pairs_.push_back({std::move(receive), std::move(send)});
  }

  Work::Step step() {
    bool moved = false;
    std::size_t open = 0;
    for (Pair& pair : pairs_) {
      if (pair.done()) continue;
      if (++open > kDistancesAtOnce) break;
      moved |= pair.receive.advance();
      moved |= pair.send.advance();
    }
    if (open == 0) return Work::Step::done;
    return moved ? Work::Step::again : Work::Step::waiting;
  }

 private:
  static constexpr std::size_t kDistancesAtOnce = 4;

  struct Pair {
    ReceiveStream receive;
    SendStream send;
    bool done() const { return receive.done() && send.done(); }
  };

  std::vector<Pair> pairs_;
};

}  // namespace rueda
