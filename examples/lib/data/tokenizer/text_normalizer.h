// SPDX-License-Identifier: Apache-2.0
// The steps of BERT on text before it looks for word pieces, one code point at a time. Each code point keeps
// its origin.
#pragma once

#include <cstdint>
#include <optional>
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

// Which of its steps a tokenizer takes, in this order. The defaults are those of bert-base-uncased.
struct NormalizerSettings {
  bool clean_text = true;             // drops control characters, turns any white space into a space
  bool separate_ideographs = true;    // puts spaces around CJK ideographs
  std::optional<bool> strip_accents;  // decomposes (NFD) and drops accents; unset: as lower_case says
  bool lower_case = true;

  bool strips_accents() const { return strip_accents.value_or(lower_case); }
  friend bool operator==(const NormalizerSettings&, const NormalizerSettings&) = default;
};

// Bytes that are not valid UTF-8 are dropped, whatever the settings.
std::vector<NormalizedCharacter> normalize_for_bert(std::string_view utf8,
                                                    const NormalizerSettings& settings);

// Words: runs of characters between white space, each punctuation character a word of its own. Views into
// `text`.
std::vector<std::span<const NormalizedCharacter>> split_words(std::span<const NormalizedCharacter> text);

// White space as Unicode has it.
bool is_white_space(char32_t value);

// Appends a code point.
void append_utf8(char32_t value, std::string& text);

}  // namespace rueda::examples
