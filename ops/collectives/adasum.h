// SPDX-License-Identifier: Apache-2.0
// Adasum of the tensors of several ranks: what each rank computes, whatever carries the data.
//
// Every tensor is cut into one part for each rank (TensorSegments); rank r's parts of all tensors, one after
// the other, are its share. First each rank gets its share of the vectors of all ranks. Then they are
// combined in a tree (adasum_levels), in each rank its share: at each level every rank computes the products
// of its parts, these are summed over all ranks in one order (tree_sum), and with the sums each combines its
// own. At last the shares of the result go to all.
//
// So the result depends on the values, their order and the number of ranks alone: not on what else is in the
// Plan, on sizes of messages, or on the memory or link that carries them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/host_buffer.h"
#include "core/control/messages/plan.h"
#include "ops/buffers/tensor_segments.h"
#include "ops/buffers/work_memory.h"
#include "ops/kernels/adasum.h"

namespace rueda {

// `into` becomes Adasum of itself and `from`. Places among the members of the process set.
struct AdasumPair {
  Rank into = 0;
  Rank from = 0;
  friend bool operator==(const AdasumPair&, const AdasumPair&) = default;
};

// What is combined at each level of the tree; after the last the result is with 0. Those from the largest
// power of two P on come first, r into r - P; then 1 into 0, 3 into 2, ...; then 2 into 0, 6 into 4, ...
std::vector<std::vector<AdasumPair>> adasum_levels(Rank size);

// The sum of one number of each rank, in the order of a binomial tree: neighbours, then neighbouring pairs,
// and so on, as messages from child to parent sum up (algorithms/tree_sum.h). `of_ranks` is used up.
double tree_sum(std::span<double> of_ranks);

// Purpose: one rank's share of the vectors of all ranks, while they are combined. Memory: one accumulator for
// each element of the vector (its share of as many vectors as there are ranks), three numbers for each tensor
// and pair. Part of a Work, stepped by its thread; refers to its Plan.
class AdasumShare {
 public:
  AdasumShare(const Plan& plan, Rank place, Rank size);

  // Gets the memory. Throws WorkFailure, and may be called again.
  void prepare(const Memory& memory);

  std::int64_t elements() const { return elements_; }
  // Where the share of a rank's vector lies, as accumulators; null before prepare().
  std::byte* of(Rank place) const;
  // Elements from `begin` on of a rank's vector, scaled before.
  void load(Rank place, std::int64_t begin, const void* values, std::int64_t count);
  // Elements of the result, scaled.
  void store(void* values, std::int64_t begin, std::int64_t count) const;

  // The level that comes next; the last one is over at levels().
  std::size_t level() const { return level_; }
  std::size_t levels() const { return levels_.size(); }
  // How many numbers a level has, and the most of all levels.
  static std::size_t numbers(const Plan& plan, std::size_t pairs);
  std::size_t numbers(std::size_t level) const { return numbers(plan_, levels_[level].size()); }
  std::size_t most_numbers() const;
  // Computes some of the products of this level, of this rank's parts; false when all are there, or were
  // before.
  bool multiply();
  // Of this level: this rank's, to be replaced by the sums over all ranks. Null before prepare().
  double* data() const { return reinterpret_cast<double*>(numbers_.data()); }
  // Combines some of the pairs of this level; false when all are, and the next level has begun.
  bool combine();
  // Instead of both where the Plan has failed.
  void skip_level() { ++level_; }

 private:
  template <class Visit>
  bool advance(Visit visit);

  const Plan& plan_;
  const Rank place_;
  const Rank size_;
  const std::int64_t elements_;
  const DataType accumulator_;
  const std::int64_t accumulator_size_;
  const std::vector<std::vector<AdasumPair>> levels_;
  HostBuffer vectors_;
  HostBuffer numbers_;  // kernels::Products by pair and tensor
  bool prepared_ = false;
  std::size_t level_ = 0;
  bool multiplied_ = false;  // this level

  // Where advance() is: a block of a part of a tensor of a pair.
  std::size_t pair_ = 0;
  std::size_t tensor_ = 0;
  std::int64_t offset_ = 0;  // of the tensor's part in the share
  std::int64_t done_ = 0;    // elements of that part
};

}  // namespace rueda
