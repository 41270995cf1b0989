// SPDX-License-Identifier: Apache-2.0
// The libraries that Rueda is compared with, on the same processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/rueda_bench/workload/collective.h"

namespace rueda::bench {

// Purpose: the other side of a comparison, on one rank; the main thread's. The same calls come on every rank.
class Reference {
 public:
  virtual ~Reference() = default;
  // Whether it has this operation on this dtype.
  virtual bool has(const Collective& what) const = 0;
  // Memory for its tensors, as its users have it.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) { return ordinary_memory(bytes); }
  // Of one operation on those buffers, which all begin together.
  virtual double seconds(CollectiveBuffers& buffers) = 0;
};

// MPI. Throws std::runtime_error where it cannot be used: a build without it, a job of one rank.
std::unique_ptr<Reference> mpi_reference();

// Purpose: the ranks of a program that does not call init(), by MPI, as a program of one thread has it. One
// in a process, used by its main thread.
class Ranks {
 public:
  Ranks();
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Rank rank() const { return rank_; }
  Rank size() const { return size_; }
  // The words of all ranks, in order.
  std::vector<std::string> gather(const std::string& word) const;
  // The largest of all ranks, one by one.
  void take_largest(std::vector<double>& values) const;

 private:
  Rank rank_ = 0;
  Rank size_ = 1;
};

}  // namespace rueda::bench
