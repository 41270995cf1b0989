// SPDX-License-Identifier: Apache-2.0
// tokenizer.json: a tokenizer in the format of Hugging Face's tokenizers library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/lib/data/files/json_node.h"
#include "examples/lib/data/tokenizer/added_tokens.h"
#include "examples/lib/data/tokenizer/text_normalizer.h"

namespace rueda::examples {

// The token that begins or ends the input of a model.
struct FrameToken {
  std::string name;
  std::int32_t id = 0;
};

struct TokenizerJson {
  std::vector<std::optional<std::string>> vocabulary;  // by id; ids may be left out
  std::string unknown;
  std::string continuation;
  std::size_t most_characters_per_word = 0;
  NormalizerSettings normalizer;
  bool has_bert_normalizer = false;  // and nothing around it
  std::vector<AddedToken> added;     // in the order of their ids
  FrameToken classifier;
  FrameToken separator;
};

// Throws std::runtime_error naming the file, the path in it and the remedy: for malformed files, and for
// features that a tokenizer of BERT has not (another model than WordPiece, other steps).
TokenizerJson read_tokenizer_json(const std::filesystem::path& file);

// One token as the library writes it, with this id.
AddedToken read_added_token(const JsonNode& token, std::int32_t id);

// Throws JsonNode's error unless it is a number from 0 below kMostTokens.
std::int32_t read_token_id(const JsonNode& node);

}  // namespace rueda::examples
