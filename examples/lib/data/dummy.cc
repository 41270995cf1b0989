// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/dummy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "examples/lib/data/nq.h"

namespace rueda::examples {
namespace {

constexpr std::uint64_t kAnswer = 1ULL << 40;  // draws beside those of the tokens
constexpr std::uint64_t kTypes = 5;

void check(const DummyShape& shape) {
  if (shape.columns < 4 || shape.vocab_size < 1) {
    throw std::invalid_argument(
        fmt::format("made-up windows of {} tokens over a vocabulary of {}; at least 4 and 1 are needed",
                    shape.columns, shape.vocab_size));
  }
}

// Row after row of tokens from anywhere in the vocabulary.
std::vector<std::int64_t> tokens(const DummyShape& shape, std::uint64_t seed,
                                 std::span<const std::uint64_t> positions) {
  std::vector<std::int64_t> ids;
  ids.reserve(positions.size() * static_cast<std::size_t>(shape.columns));
  for (const std::uint64_t position : positions) {
    const std::uint64_t draw = mix(seed, position);
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(shape.columns); ++i)
      ids.push_back(static_cast<std::int64_t>(mix(draw, i) % static_cast<std::uint64_t>(shape.vocab_size)));
  }
  return ids;
}

}  // namespace

PaddedBatch dummy_squad(const DummyShape& shape, std::uint64_t seed,
                        std::span<const std::uint64_t> positions) {
  check(shape);
  PaddedBatch batch;
  batch.rows = static_cast<std::int64_t>(positions.size());
  batch.columns = shape.columns;
  batch.input_ids = tokens(shape, seed, positions);
  const std::int64_t context = shape.columns / 8;  // where it begins; an eighth is the question
  for (const std::uint64_t position : positions) {
    batch.token_types.insert(batch.token_types.end(), static_cast<std::size_t>(context), 0);
    batch.token_types.insert(batch.token_types.end(), static_cast<std::size_t>(shape.columns - context), 1);
    batch.lengths.push_back(shape.columns);
    const std::uint64_t draw = mix(mix(seed, position), kAnswer);
    const auto left = static_cast<std::uint64_t>(shape.columns - context);
    const std::int64_t start = context + static_cast<std::int64_t>(draw % left);
    batch.starts.push_back(start);
    batch.ends.push_back(std::min(shape.columns - 1, start + static_cast<std::int64_t>(mix(draw, 0) % 8)));
  }
  return batch;
}

PaddedBatch dummy_nq(const DummyShape& shape, std::uint64_t seed, std::span<const std::uint64_t> positions) {
  PaddedBatch batch = dummy_squad(shape, seed, positions);
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const std::uint64_t type = mix(mix(seed, positions[row]), kAnswer + 1) % kTypes;
    batch.answer_types.push_back(static_cast<std::int64_t>(type));
    if (static_cast<AnswerType>(type) == AnswerType::unknown) batch.starts[row] = batch.ends[row] = 0;
  }
  return batch;
}

LmBatch dummy_lm(const DummyShape& shape, std::uint64_t seed, std::span<const std::uint64_t> positions) {
  check(shape);
  LmBatch batch;
  batch.rows = static_cast<std::int64_t>(positions.size());
  batch.columns = shape.columns;
  batch.input_ids = tokens(shape, seed, positions);
  batch.lengths.assign(positions.size(), shape.columns);
  batch.labels.assign(batch.input_ids.size(), kNoLabel);
  const auto columns = static_cast<std::size_t>(shape.columns);
  const auto labels = static_cast<std::size_t>(
      std::max<std::int64_t>(1, std::llround(kMaskedShare * static_cast<double>(shape.columns))));
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const std::vector<std::size_t> order = shuffled(columns, mix(mix(seed, positions[row]), kAnswer));
    for (std::size_t i = 0; i < labels; ++i)
      batch.labels[row * columns + order[i]] = batch.input_ids[row * columns + order[i]];
  }
  return batch;
}

}  // namespace rueda::examples
