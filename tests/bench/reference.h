// SPDX-License-Identifier: Apache-2.0
// What Rueda is compared with, on the same processes. Without MPI there is nothing to compare with.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/collective.h"

namespace rueda::bench {

// Throws std::runtime_error where it cannot be used: a build without MPI, a job of one rank.
void check_reference();
// Whether MPI has this operation on this dtype.
bool reference_has(const Collective& what);
// Seconds of one MPI operation on those buffers, after a barrier. Called by every rank.
double reference_seconds(CollectiveBuffers& buffers);

// Purpose: the ranks of a program that does not call init(), by MPI. One in a process, used by its main
// thread.
class Ranks {
 public:
  Ranks();
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Rank rank() const { return rank_; }
  Rank size() const { return size_; }
  // The words of all ranks, in order; at most 1 KiB each.
  std::vector<std::string> gather(const std::string& word) const;
  // The largest of all ranks, one by one.
  void take_largest(std::vector<double>& values) const;

 private:
  Rank rank_ = 0;
  Rank size_ = 1;
};

}  // namespace rueda::bench
