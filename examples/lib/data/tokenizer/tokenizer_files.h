// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a checkpoint, from the files that transformers reads and writes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/lib/data/tokenizer/word_piece.h"

namespace rueda::examples {

struct ReadTokenizer {
  WordPieceTokenizer tokenizer;
  std::filesystem::path vocabulary;  // the file that its tokens are from
  std::vector<std::string> notes;    // for people: parts of the files that are not used or may be a mistake
};

// From a folder: tokenizer.json, or without it vocab.txt, as transformers chooses; from one of these files
// otherwise. In both cases with tokenizer_config.json, special_tokens_map.json and added_tokens.json of the
// same folder. A text becomes the same tokens as with AutoTokenizer of transformers 4 and 5. Throws
// std::runtime_error naming the file and the remedy: for malformed or missing parts, parts that the two
// versions read differently, and features that Rueda has not.
ReadTokenizer read_tokenizer(const std::filesystem::path& path);

// Writes vocab.txt, tokenizer.json, tokenizer_config.json and special_tokens_map.json, of which AutoTokenizer
// makes the same tokenizer. `most_tokens`: the limit of the model, unless the tokenizer's own limit is below.
// Throws std::runtime_error naming the file that cannot be written.
void write_tokenizer(const std::filesystem::path& folder, const WordPieceTokenizer& tokenizer,
                     std::int64_t most_tokens);

}  // namespace rueda::examples
