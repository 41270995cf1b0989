// SPDX-License-Identifier: Apache-2.0
// Which windows of text each rank reads at each step, and how they become one padded block of numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "examples/lib/data/features.h"

namespace rueda::examples {

// The training windows as one endless sequence: epoch after epoch, each shuffled by (seed, epoch). A global
// batch is the next piece of it, cut first by backward pass, then by rank. So the windows of a step depend
// only on how many a step takes, not on how many ranks and passes share them; a batch may span two epochs and
// none is dropped. Any number of threads may ask at once.
class TrainingOrder {
 public:
  // Throws std::invalid_argument if there are no windows or a count is not positive.
  TrainingOrder(std::size_t windows, std::uint64_t seed, std::size_t batch, std::size_t ranks,
                std::size_t passes);

  // Indices of the windows that `rank` reads in backward pass `pass` of step `step`, all from 0.
  std::vector<std::size_t> batch(std::size_t step, std::size_t pass, std::size_t rank) const;

  // The position of that batch's first window in the sequence; the others follow it. Random draws for one
  // sample of the training depend on its position.
  std::uint64_t first_position(std::size_t step, std::size_t pass, std::size_t rank) const;

 private:
  using Order = std::shared_ptr<const std::vector<std::size_t>>;
  struct Epoch {
    std::uint64_t number;
    Order order;  // nothing yet: no such epoch
  };

  Order order_of(std::uint64_t epoch) const;

  std::size_t windows_;
  std::uint64_t seed_;
  std::size_t batch_;
  std::size_t ranks_;
  std::size_t passes_;
  mutable std::mutex mutex_;
  mutable std::array<Epoch, 2> epochs_{};  // of the even and of the odd ones, that asked for last
};

// A permutation of 0 .. count - 1 that is the same on every machine.
std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed);

// Two numbers made one, well spread: seeds of epochs, ranks and steps.
std::uint64_t mix(std::uint64_t a, std::uint64_t b);

// All windows once, for evaluation: batches of whole questions of similar length, at most `size` windows each
// unless one question has more. They do not depend on the number of ranks, so that neither do the logits.
std::vector<std::vector<std::size_t>> evaluation_batches(std::span<const Feature> features, std::size_t size);

// Windows padded to the longest of them, row after row.
struct PaddedBatch {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> input_ids;
  std::vector<std::int64_t> token_types;
  std::vector<std::int64_t> lengths;  // of each row, without padding
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> ends;
  std::vector<std::int64_t> answer_types;  // of Natural Questions; else empty
};

PaddedBatch pad(std::span<const Feature* const> rows, std::int32_t pad_id);
PaddedBatch pad(std::span<const Feature> features, std::span<const std::size_t> chosen, std::int32_t pad_id);

}  // namespace rueda::examples
