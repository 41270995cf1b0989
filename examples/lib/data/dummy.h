// SPDX-License-Identifier: Apache-2.0
// Made-up batches: the shapes of each task without any file. A step then consists of computing and
// communication only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "examples/lib/data/batches.h"
#include "examples/lib/data/masking.h"

namespace rueda::examples {

struct DummyShape {
  std::int64_t columns = 512;  // every row is full
  std::int64_t vocab_size = 0;
};

// Of windows with question and context (SQuAD), and of those with answer types (Natural Questions). Row i is
// drawn by (seed, positions[i]). These and the next throw std::invalid_argument if a row has no room for a
// token, or the vocabulary is empty.
PaddedBatch dummy_squad(const DummyShape& shape, std::uint64_t seed,
                        std::span<const std::uint64_t> positions);
PaddedBatch dummy_nq(const DummyShape& shape, std::uint64_t seed, std::span<const std::uint64_t> positions);

// Of masked windows (masked language modelling, distillation): 15 % of each row have a label.
LmBatch dummy_lm(const DummyShape& shape, std::uint64_t seed, std::span<const std::uint64_t> positions);

}  // namespace rueda::examples
