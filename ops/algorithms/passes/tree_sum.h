// SPDX-License-Identifier: Apache-2.0
// Sums some numbers of all ranks, the same bits everywhere: up a binomial tree, and the sums down again.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ops/algorithms/passes/algorithm.h"
#include "ops/link/chunked_transfer.h"

namespace rueda {

// Purpose: one such sum. The parent of index v is v without its lowest set bit; a rank adds what its children
// v + 1, v + 2, v + 4, ... send, in this order: so neighbours are summed first, then neighbouring pairs.
// Cost: 2 log2 p messages one after the other. Part of an Algorithm.
class TreeSum {
 public:
  // How many numbers of memory it needs for what children send.
  static std::size_t room(const Group& group, std::size_t count);

  // `numbers` are this rank's, then the sums. `room` is for room() of them. Both may be null where the
  // channel has been abandoned.
  TreeSum(const Route& route, double* numbers, std::size_t count, double* room);

  Work::Step step();

 private:
  bool add_children();

  Channel* channel_;
  double* numbers_;
  std::size_t count_;
  double* room_;
  std::vector<ReceiveStream> from_children_;
  std::size_t added_ = 0;  // children
  std::optional<SendStream> up_;
  std::optional<ReceiveStream> down_;
  std::vector<SendStream> to_children_;
};

}  // namespace rueda
