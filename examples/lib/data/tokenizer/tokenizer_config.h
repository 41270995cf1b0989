// SPDX-License-Identifier: Apache-2.0
// tokenizer_config.json, and the files that older versions of transformers keep beside it:
// special_tokens_map.json and added_tokens.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "examples/lib/data/tokenizer/added_tokens.h"

namespace rueda::examples {

struct TokenizerConfig {
  std::optional<std::string> tokenizer_class;
  std::optional<bool> lower_case;
  std::optional<bool> separate_ideographs;  // tokenize_chinese_chars
  std::optional<bool> strip_accents;
  std::map<std::string, AddedToken>
      names;                               // by their keys, such as "cls_token"; their ids are not known here
  std::vector<AddedToken> more_special;    // additional_special_tokens
  std::set<std::string> listed_in_map;     // the names that special_tokens_map.json alone lists
  std::vector<AddedToken> added;           // in the order of their ids
  bool says_what_is_added = false;         // by added_tokens_decoder, beside which older files do not count
  std::optional<std::int64_t> max_length;  // model_max_length, if it is a limit
  std::vector<std::string> notes;          // for people: settings that are not known and not used
};

// Of a folder that has any of the files, or none. Throws std::runtime_error naming the file, the setting and
// the remedy: for malformed files, files that contradict one another, and settings that Rueda has not.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace rueda::examples
