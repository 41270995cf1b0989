// SPDX-License-Identifier: Apache-2.0
// From questions and contexts to the token windows that BERT reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "examples/lib/data/squad.h"
#include "examples/lib/data/tokenizer/word_piece.h"

namespace rueda::examples {

// [CLS] question [SEP] window of the context [SEP], not padded.
struct Feature {
  std::size_t question;  // index into SquadData::questions
  std::vector<std::int32_t> input_ids;
  std::vector<std::int32_t> token_types;  // 0 up to the first [SEP], 1 after it
  std::int32_t start;          // positions of the first answer's first and last token in input_ids;
  std::int32_t end;            // both 0, the position of [CLS], if it is not wholly in this window
  std::int32_t context_begin;  // position of the first context token in input_ids
  std::vector<std::pair<std::int32_t, std::int32_t>> offsets;  // byte range in the context, per context token
};

// The windows of all questions, in the order of the questions. Consecutive windows of one question share
// `stride` tokens (Hugging Face's doc_stride). Questions are cut at `max_question_length` tokens. Throws
// std::invalid_argument if these settings leave a question no more than `stride` tokens of context.
std::vector<Feature> make_features(const SquadData& data, const WordPieceTokenizer& tokenizer,
                                   std::int32_t max_length, std::int32_t stride,
                                   std::int32_t max_question_length = 64);

}  // namespace rueda::examples
