// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text itself, before it is cut into words: special ones and those added later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "examples/lib/data/tokenizer/text_normalizer.h"

namespace rueda::examples {

// As Hugging Face's files describe one.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  // only where no letter or digit stands beside it
  bool lstrip = false;       // takes the white space before it too
  bool rstrip = false;       // and behind it
  bool normalized = false;  // looked for in the normalized text, itself normalized; else in the text as it is
  bool special = true;
  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

// True where a token as it is, in a text, and the normalized token, in the normalized text, are found in the
// same positions.
bool is_found_alike(const std::string& token, const NormalizerSettings& normalizer);

// Gives tokens the ids that Hugging Face's library gives them: the vocabulary's, else the next after it.
class AddedTokenIds {
 public:
  // The vocabulary by id; it must outlive this object.
  explicit AddedTokenIds(std::span<const std::optional<std::string>> vocabulary);

  // Of a token that is added now. The same again for one that was.
  std::int32_t add(const std::string& content);
  bool knows(const std::string& content) const { return vocabulary_.contains(content); }

 private:
  std::unordered_map<std::string_view, std::int32_t> vocabulary_;
  std::map<std::string, std::int32_t> added_;
  std::int32_t next_;
};

// Finds tokens in a text: the leftmost first, of those that begin there the longest. Immutable: any thread.
// Time: length of the text, times the tokens that begin with a byte where it occurs.
class TokenFinder {
 public:
  struct Found {
    std::size_t begin;  // bytes, with the white space that the token takes
    std::size_t end;
    std::int32_t id;
  };

  TokenFinder() = default;
  // Uses those of `tokens` that have the same `normalized`; these are normalized so. Throws
  // std::runtime_error naming a token that normalization makes empty.
  TokenFinder(std::span<const AddedToken> tokens, bool normalized, const NormalizerSettings& normalizer);

  bool empty() const { return tokens_.empty(); }
  // In the order of their text. A token may begin with white space that the token before has taken.
  std::vector<Found> find(std::string_view utf8) const;

 private:
  struct Match {
    std::size_t begin = std::string_view::npos;
    const AddedToken* token = nullptr;
  };
  Match next(std::string_view utf8, std::size_t from) const;

  std::vector<AddedToken> tokens_;          // by their first byte, the longest first
  std::array<std::uint32_t, 257> first_{};  // of each byte: the index in tokens_ of its first token
};

}  // namespace rueda::examples
