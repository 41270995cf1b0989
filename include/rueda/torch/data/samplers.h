// SPDX-License-Identifier: Apache-2.0
// Which samples of a data set each rank reads, for torch::data's loaders.
#pragma once

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rueda/rueda.h"

namespace rueda {

// Purpose: what samplers have in common: this rank's indices of an epoch, handed out in batches. Used by one
// thread; needs no Runtime once it is made.
class ShardSampler : public torch::data::samplers::Sampler<> {
 public:
  // The next batch of this epoch, the last one perhaps smaller; none at its end.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  // Where the sampler is. To be loaded on any number of ranks, with the same data set.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  // This rank's indices of this epoch, all of them.
  const std::vector<std::size_t>& indices() const { return indices_; }
  // Counted from 0.
  std::size_t epoch() const { return epoch_; }

 protected:
  // Collective among the scope's ranks, which throw Mismatch unless their `lines` and `size` are the same.
  ShardSampler(std::size_t size, const Scope& scope, std::vector<std::string> lines);

  // This rank's indices of epoch_.
  virtual std::vector<std::size_t> draw() const = 0;
  // Goes to the start of `epoch`.
  void begin(std::size_t epoch);
  // What reset() may be given.
  void resize(std::optional<std::size_t> size) { size_ = size.value_or(size_); }

  std::size_t size_;                  // of the data set
  std::size_t ranks_;                 // of the scope
  std::size_t place_;                 // of this rank among them
  std::size_t epoch_ = 0;             // counted from 0
  std::size_t position_ = 0;          // in indices_
  bool loaded_ = false;               // and nothing handed out since
  std::vector<std::size_t> indices_;  // of this rank and epoch
};

// Purpose: exact evaluation: each index of [0, size) on exactly one rank, and none twice; so average_metric
// over ranks is what one process would have measured. Ranks have contiguous blocks in order, which differ by
// one index at most; of a small set some have none.
class EvaluationSampler : public ShardSampler {
 public:
  // Collective: every rank of the scope makes it with the same `size`.
  explicit EvaluationSampler(std::size_t size, const Scope& scope = {});
  // Begins anew.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;

 protected:
  // This rank's indices of an epoch.
  std::vector<std::size_t> draw() const override;
};

// What becomes of samples that are too few to give every rank one.
enum class Remainder : std::uint8_t {
  drop,  // they rest for this epoch
  wrap,  // the first of the epoch come again to fill them up
};

// A plain value, equal on every rank.
struct SamplerOptions {
  std::uint64_t seed = 0;                 // of all epochs' permutations
  Remainder remainder = Remainder::drop;  // of samples, where ranks do not divide their number
};

// Purpose: training: each epoch a new permutation of [0, size), the same on all ranks for it depends on seed
// and epoch alone, on every machine; rank r of n has every n-th from place r on, all equally many. So a step
// of all ranks reads the next piece of the permutation, on however many.
class DistributedSampler : public ShardSampler {
 public:
  // Collective, as of EvaluationSampler. Throws InvalidArgument when there are fewer samples than ranks,
  // which then would have none.
  explicit DistributedSampler(std::size_t size, const SamplerOptions& options = {}, const Scope& scope = {});

  // The next reset(), or next(), begins this epoch.
  void set_epoch(std::size_t epoch) { begin(epoch); }
  // Begins the next epoch when something of this one has been handed out, as loaders do at begin(); but the
  // first after load() goes on where that says.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;

 protected:
  // This rank's indices of an epoch.
  std::vector<std::size_t> draw() const override;

 private:
  SamplerOptions options_;
};

}  // namespace rueda
