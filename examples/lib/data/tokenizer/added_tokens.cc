// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/tokenizer/added_tokens.h"

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

namespace rueda::examples {
namespace {

std::uint8_t first_byte(const AddedToken& token) { return static_cast<std::uint8_t>(token.content.front()); }

// Tells whether it is a word character, as regular expressions have it.
bool is_of_a_word(UChar32 character) {
  constexpr std::uint32_t kMarksDigitsConnectors = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return character >= 0 &&
         (u_isUAlphabetic(character) != 0 || (U_GET_GC_MASK(character) & kMarksDigitsConnectors) != 0 ||
          u_hasBinaryProperty(character, UCHAR_JOIN_CONTROL) != 0);
}

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  auto position = static_cast<std::int32_t>(text.size());
  UChar32 character;
  U8_PREV(text.data(), 0, position, character);
  return is_of_a_word(character);
}

bool begins_with_word(std::string_view text) {
  if (text.empty()) return false;
  std::size_t position = 0;
  UChar32 character;
  U8_NEXT(text.data(), position, text.size(), character);
  return is_of_a_word(character);
}

// The offset at which the white space at the end of `text` begins.
std::size_t end_without_space(std::string_view text) {
  for (auto position = static_cast<std::int32_t>(text.size()); position > 0;) {
    const std::int32_t end = position;
    UChar32 character;
    U8_PREV(text.data(), 0, position, character);
    if (character < 0 || !is_white_space(static_cast<char32_t>(character)))
      return static_cast<std::size_t>(end);
  }
  return 0;
}

// How many bytes of white space `text` begins with.
std::size_t leading_space(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t begin = position;
    UChar32 character;
    U8_NEXT(text.data(), position, text.size(), character);
    if (character < 0 || !is_white_space(static_cast<char32_t>(character))) return begin;
  }
  return text.size();
}

std::string normalized_text(const std::string& text, const NormalizerSettings& normalizer) {
  std::string normalized;
  for (const NormalizedCharacter& character : normalize_for_bert(text, normalizer))
    append_utf8(character.value, normalized);
  return normalized;
}

bool has_letters(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    UChar32 character;
    U8_NEXT(text.data(), position, text.size(), character);
    if (character >= 0 && u_isUAlphabetic(character) != 0) return true;
  }
  return false;
}

}  // namespace

// Letters that lose case or accents become the token's, whatever they were in the text.
bool is_found_alike(const std::string& token, const NormalizerSettings& normalizer) {
  const bool changes_letters = normalizer.lower_case || normalizer.strips_accents();
  return normalized_text(token, normalizer) == token && !(changes_letters && has_letters(token));
}

AddedTokenIds::AddedTokenIds(std::span<const std::optional<std::string>> vocabulary) {
  for (std::size_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary[id]) vocabulary_.emplace(*vocabulary[id], static_cast<std::int32_t>(id));
  next_ = static_cast<std::int32_t>(vocabulary_.size());  // also where the vocabulary leaves out ids
}

std::int32_t AddedTokenIds::add(const std::string& content) {
  if (const auto found = added_.find(content); found != added_.end()) return found->second;
  const auto found = vocabulary_.find(content);
  const std::int32_t id = found == vocabulary_.end() ? next_ : found->second;
  added_.emplace(content, id);
  next_ = std::max(next_, id + 1);
  return id;
}

TokenFinder::TokenFinder(std::span<const AddedToken> tokens, bool normalized,
                         const NormalizerSettings& normalizer) {
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    tokens_.push_back(token);
    if (normalized) tokens_.back().content = normalized_text(token.content, normalizer);
    if (tokens_.back().content.empty())
      throw std::runtime_error(
          fmt::format("of the added token \"{}\" nothing is left to look for", token.content));
  }
  // Of two that are looked for as the same text the first one counts.
  std::ranges::stable_sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    return std::tuple(first_byte(a), b.content.size()) < std::tuple(first_byte(b), a.content.size());
  });
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto found = std::ranges::lower_bound(
        tokens_, byte, {}, [](const AddedToken& token) { return std::size_t{first_byte(token)}; });
    first_[byte] = static_cast<std::uint32_t>(found - tokens_.begin());
  }
  first_.back() = static_cast<std::uint32_t>(tokens_.size());
}

TokenFinder::Match TokenFinder::next(std::string_view utf8, std::size_t from) const {
  for (std::size_t at = from; at < utf8.size(); ++at) {
    const auto byte = static_cast<std::uint8_t>(utf8[at]);
    for (std::size_t i = first_[byte]; i < first_[byte + 1U]; ++i)
      if (utf8.substr(at).starts_with(tokens_[i].content)) return {at, &tokens_[i]};
  }
  return {};
}

std::vector<TokenFinder::Found> TokenFinder::find(std::string_view utf8) const {
  std::vector<Found> found;
  if (empty()) return found;
  std::size_t taken = 0;  // up to here
  for (Match match = next(utf8, 0); match.token != nullptr;) {
    const AddedToken& token = *match.token;
    std::size_t begin = match.begin;
    std::size_t end = begin + token.content.size();
    match = next(utf8, end);
    if (token.single_word && (ends_with_word(utf8.substr(0, begin)) || begins_with_word(utf8.substr(end))))
      continue;
    if (token.lstrip) begin = std::max(end_without_space(utf8.substr(0, begin)), taken);
    if (token.rstrip) end += leading_space(utf8.substr(end));
    found.push_back({begin, end, token.id});
    taken = end;
  }
  return found;
}

}  // namespace rueda::examples
