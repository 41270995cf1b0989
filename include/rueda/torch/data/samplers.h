// SPDX-License-Identifier: Apache-2.0
// Samplers that divide a data set among ranks, for the data loaders of LibTorch.
#pragma once

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rueda/rueda.h"

namespace rueda {

// Purpose: the common part of samplers. It returns this rank's indices of an epoch in batches. Used by one
// thread. It needs no Runtime after its construction.
class ShardSampler : public torch::data::samplers::Sampler<> {
 public:
  // Returns the next batch of this epoch. The last batch may be smaller. Returns nothing at the end.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  // Save and load the position. A job may load it on any number of ranks with the same data set.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  // Returns all indices of this rank in this epoch.
  const std::vector<std::size_t>& indices() const { return indices_; }
  // Returns the epoch, counted from 0.
  std::size_t epoch() const { return epoch_; }

 protected:
  // Collective. Throws Mismatch if `lines` or `size` differ between the ranks of the scope.
  ShardSampler(std::size_t size, const Scope& scope, std::vector<std::string> lines);

  // Returns this rank's indices of epoch_.
  virtual std::vector<std::size_t> draw() const = 0;
  // Goes to the start of `epoch`.
  void begin(std::size_t epoch);
  // Sets the size of the data set if reset() gets one.
  void resize(std::optional<std::size_t> size) { size_ = size.value_or(size_); }

  std::size_t size_;                  // size of the data set
  std::size_t ranks_;                 // number of ranks of the scope
  std::size_t index_;                 // index of this rank among them
  std::size_t epoch_ = 0;             // counted from 0
  std::size_t position_ = 0;          // in indices_
  bool loaded_ = false;               // no batch was returned after load()
  std::vector<std::size_t> indices_;  // of this rank and epoch
};

// Purpose: a sampler for exact evaluation. Each index of [0, size) belongs to exactly one rank, so
// average_metric over ranks equals that of one process. Ranks have contiguous blocks in order of rank. The
// sizes of blocks differ by at most one, and a block may be empty.
class EvaluationSampler : public ShardSampler {
 public:
  // Collective. Every rank of the scope passes the same `size`.
  explicit EvaluationSampler(std::size_t size, const Scope& scope = {});
  // Begins the epoch again.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;

 protected:
  // Returns this rank's indices of epoch_.
  std::vector<std::size_t> draw() const override;
};

// Tells what happens to the remaining samples of an epoch if ranks do not divide their number.
enum class Remainder : std::uint8_t {
  drop,  // this epoch leaves them out
  wrap,  // the first samples of the epoch fill the last step
};

// Options of DistributedSampler. A plain value, equal on every rank.
struct SamplerOptions {
  std::uint64_t seed = 0;                 // for the permutations of all epochs
  Remainder remainder = Remainder::drop;  // for samples that do not divide by the ranks
};

// Purpose: a sampler for training. Each epoch is a new permutation of [0, size). It depends on seed and
// epoch only, on every machine. Rank r of n takes the elements r, r + n, r + 2n and so on, equally many on
// each rank. So in each step the ranks together read the next piece of the permutation.
class DistributedSampler : public ShardSampler {
 public:
  // Collective. Every rank of the scope passes the same `size`. Throws InvalidArgument if there are fewer
  // samples than ranks.
  explicit DistributedSampler(std::size_t size, const SamplerOptions& options = {}, const Scope& scope = {});

  // The next reset() or next() begins this epoch.
  void set_epoch(std::size_t epoch) { begin(epoch); }
  // Begins the next epoch if a batch of this one was returned. Data loaders call it at begin(). The first
  // call after load() continues from the loaded position instead.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;

 protected:
  // Returns this rank's indices of epoch_.
  std::vector<std::size_t> draw() const override;

 private:
  SamplerOptions options_;
};

}  // namespace rueda
