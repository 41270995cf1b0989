// SPDX-License-Identifier: Apache-2.0
// Masked language modelling: the choice of hidden tokens and of their replacements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "examples/lib/data/tokenizer/word_piece.h"

namespace rueda::examples {

inline constexpr std::int32_t kNoLabel = -100;  // a position that no loss looks at

struct MaskedWindow {
  std::vector<std::int32_t> input_ids;
  std::vector<std::int32_t> labels;  // the original tokens at the positions to guess, kNoLabel elsewhere
};

inline constexpr double kMaskedShare = 0.15;

// Whether a token may be hidden: all but the five special ones.
bool is_maskable(std::int32_t id, const WordPieceTokenizer& tokenizer);

// How many of so many maskable tokens are hidden.
std::size_t masked_count(std::size_t candidates, double share = kMaskedShare);

// Hides max(1, round(share * n)) of the n maskable tokens, as BERT did, so that short texts have a loss too:
// 80 % become [MASK], 10 % another token of the vocabulary, 10 % stay. `sample` is the number of the draw:
// equal (ids, seed, sample) give equal masks on every rank and machine. For training it is the position in
// the whole sequence of samples (TrainingOrder::first_position). So every epoch hides other tokens. For
// evaluation it is the window's number. Any thread.
MaskedWindow mask(std::span<const std::int32_t> ids, const WordPieceTokenizer& tokenizer, std::uint64_t seed,
                  std::uint64_t sample, double share = kMaskedShare);

// Masked windows padded to the longest of them, row after row.
struct LmBatch {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> input_ids;
  std::vector<std::int64_t> lengths;  // of each row, without padding
  std::vector<std::int64_t> labels;   // kNoLabel where nothing is to be guessed, and at padding
};

LmBatch pad(std::span<const MaskedWindow> windows, std::int32_t pad_id);

}  // namespace rueda::examples
