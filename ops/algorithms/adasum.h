// SPDX-License-Identifier: Apache-2.0
// Adasum of the tensors of several ranks.
//
// Every tensor is cut into one part for each rank (TensorSegments); rank r's parts of all tensors, one after
// the other, are its share. First each rank gets its share of the vectors of all ranks. Then they are
// combined in a tree (adasum_levels), in each rank its share: at each level every rank computes the products
// of its parts, these are summed over all ranks in one order (TreeSum), and with the sums each combines its
// own. At last the shares of the result go to all.
//
// So the result depends on the values, their order and the number of ranks alone: not on what else is in the
// Plan, on sizes of messages, or on the link that carries them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/host_buffer.h"
#include "core/control/messages/plan.h"
#include "core/engine/submissions/entry.h"
#include "ops/algorithms/passes/algorithm.h"
#include "ops/buffers/fusion_buffer.h"
#include "ops/buffers/tensor_segments.h"
#include "ops/buffers/work_memory.h"
#include "ops/kernels/adasum.h"

namespace rueda {

// Every rank sends every other its parts of the tensors, as accumulators; the products of each level go up a
// tree and their sums down; every rank sends every other its share of the result. Cost of n elements on p
// ranks: 2 n (p-1)/p sent and received by each, in 2 (p-1) messages or more; 2 log2 p small messages one
// after the other for each of log2 p levels (one more where p is no power of two); memory of 2 n
// accumulators.
std::unique_ptr<Algorithm> adasum(const Route& route, const Plan& plan, std::span<Entry> entries,
                                  FusionBuffer& buffers);

// `into` becomes Adasum of itself and `from`. Indices among the members of the process set.
struct AdasumPair {
  Rank into = 0;
  Rank from = 0;
  friend bool operator==(const AdasumPair&, const AdasumPair&) = default;
};

// The pairs of each level of the tree; at the end index 0 has the result. The indices from the largest power
// of two P on come first, r into r - P. Then 1 into 0, 3 into 2, ...; then 2 into 0, 6 into 4, ...
std::vector<std::vector<AdasumPair>> adasum_levels(Rank size);

// Purpose: goes through one rank's parts of all tensors, once for each pair of vectors, some blocks at a
// time. Blocks begin where parts do, so that sums do not depend on steps. Part of an AdasumShare.
class AdasumBlocks {
 public:
  AdasumBlocks(const Plan& plan, Rank index, Rank size) : plan_(plan), index_(index), size_(size) {}

  // Calls visit(pair, tensor, first element in the share, elements) for the next blocks; false when all of so
  // many pairs have been visited, and the next call begins anew.
  template <class Visit>
  bool advance(std::size_t pairs, Visit visit);
  bool at_begin() const { return pair_ == 0 && tensor_ == 0 && done_ == 0; }

 private:
  const Plan& plan_;
  const Rank index_;
  const Rank size_;
  std::size_t pair_ = 0;
  std::size_t tensor_ = 0;
  std::int64_t offset_ = 0;  // of the tensor's part in the share
  std::int64_t done_ = 0;    // elements of that part
};

// Purpose: one rank's share of the vectors of all ranks, while they are combined. Memory: one accumulator for
// each element of the vector (its share of as many vectors as there are ranks), three numbers for each tensor
// and pair. Part of a Work, stepped by its thread; refers to its Plan.
class AdasumShare {
 public:
  AdasumShare(const Plan& plan, Rank index, Rank size);

  // Gets the memory. Throws WorkFailure, and may be called again.
  void prepare(const Memory& memory);

  std::int64_t elements() const { return elements_; }
  std::int64_t accumulator_size() const { return accumulator_size_; }  // bytes
  // This rank's share of the vector of `index`, as accumulators; null before prepare().
  std::byte* of(Rank index) const;
  // Elements from `begin` on of a rank's vector, scaled before.
  void load(Rank index, std::int64_t begin, const void* values, std::int64_t count);
  // Elements of the result, scaled.
  void store(void* values, std::int64_t begin, std::int64_t count) const;

  // The level that comes next; the last one is over at levels().
  std::size_t level() const { return level_; }
  std::size_t levels() const { return levels_.size(); }
  // How many numbers a level has, and the most of all levels.
  std::size_t numbers(std::size_t level) const;
  std::size_t most_numbers() const;
  // Computes some of the products of this level, of this rank's parts; false when all are there.
  bool multiply();
  // Of this level: this rank's, to be replaced by the sums over all ranks. Null before prepare().
  double* data() const { return reinterpret_cast<double*>(numbers_.data()); }
  // Combines some of the pairs of this level; false when all are, and the next level has begun.
  bool combine();
  // Instead of both where the Plan has failed.
  void skip_level() { ++level_; }

 private:
  double* numbers_of(std::size_t pair, std::size_t tensor) const;

  const Plan& plan_;
  const Rank size_;
  const std::int64_t elements_;
  const DataType accumulator_;
  const std::int64_t accumulator_size_;
  const std::vector<std::vector<AdasumPair>> levels_;
  HostBuffer vectors_;
  HostBuffer numbers_;  // kernels::Products by pair and tensor
  bool prepared_ = false;
  std::size_t level_ = 0;
  AdasumBlocks blocks_;  // of this level, to be multiplied, then combined
};

}  // namespace rueda
