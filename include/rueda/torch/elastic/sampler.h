// SPDX-License-Identifier: Apache-2.0
// A sampler for training whose ranks change.
#pragma once

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "rueda/types.h"

namespace rueda::elastic {

// Options of elastic::Sampler. A plain value, equal on every rank.
struct SamplerOptions {
  bool shuffle = true;     // every epoch in an order of its own, or all in the order of the data set
  std::uint64_t seed = 0;  // for the orders of all epochs
};

// Purpose: divides the samples of an epoch among the ranks, each for one rank. If the ranks change, the
// samples that have not been read are divided anew. Each rank gets equally many. If their number does not
// divide by the ranks, the first of them are repeated. Not collective. Used by one thread at a time.
//
// Copies have a common position, so a data loader may have one and the program another:
//
//   rueda::elastic::Sampler sampler(*dataset.size());
//   auto loader = torch::data::make_data_loader(dataset, sampler, 32);
//   for (auto& batch : *loader) {
//     ...
//     sampler.record_batch(batch.data.size(0));
//   }
//   sampler.set_epoch(sampler.epoch() + 1);
class Sampler : public torch::data::samplers::Sampler<> {
 public:
  // Uses the present ranks; without init() it is for one rank.
  explicit Sampler(std::size_t size, const SamplerOptions& options = {});

  // Begins an epoch, in which no sample has been read. Call it at the end of an epoch, before its commit.
  void set_epoch(std::size_t epoch);
  // Counts a batch of `batch_size` samples that each rank has read. Call it after the step with them.
  void record_batch(std::size_t batch_size);

  // Divides the samples that have not been read among the present ranks. Data loaders call it at begin().
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;
  // The same for rank number `rank` of `ranks`. Throws InvalidArgument for impossible numbers.
  void divide(Rank rank, Rank ranks);
  // Returns the next batch of this rank. The last batch may be smaller. Returns nothing at the end.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  // Save and load the position, for any number of ranks.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  // The position of all ranks in the data.
  struct Position {
    std::size_t epoch = 0;      // counted from 0
    std::size_t processed = 0;  // number of samples of it that all ranks together have read
  };
  // Returns the position.
  Position position() const;
  // Goes to a position, with the present ranks.
  void go_to(const Position& position);
  // Returns the epoch, counted from 0.
  std::size_t epoch() const { return position().epoch; }
  // Returns the indices of this rank that were left when they were divided last.
  const std::vector<std::size_t>& indices() const;

 private:
  struct Division;
  void draw_order();

  std::shared_ptr<Division> division_;
};

}  // namespace rueda::elastic
