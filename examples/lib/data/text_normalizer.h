// SPDX-License-Identifier: Apache-2.0
// What BERT does to text before it looks for word pieces, one code point at a time, keeping where each came
// from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rueda::examples {

// A code point after normalization, and the bytes of the original text that it stands for.
struct NormalizedCharacter {
  char32_t value;
  std::int32_t begin;
  std::int32_t end;
  friend bool operator==(const NormalizedCharacter&, const NormalizedCharacter&) = default;
};

// Drops control characters and invalid UTF-8, turns any white space into a space, puts spaces around CJK
// ideographs; with `lower_case` also decomposes (NFD), drops accents and lower-cases.
std::vector<NormalizedCharacter> normalize_for_bert(std::string_view utf8, bool lower_case);

// Words: runs of characters between spaces, each punctuation character a word of its own. Views into `text`.
std::vector<std::span<const NormalizedCharacter>> split_words(std::span<const NormalizedCharacter> text);

// Appends a code point.
void append_utf8(char32_t value, std::string& text);

}  // namespace rueda::examples
