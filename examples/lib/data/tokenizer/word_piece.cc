// SPDX-License-Identifier: Apache-2.0
// The vocabulary, tokens found in the text itself, and greedy longest-match word pieces.
#include "examples/lib/data/tokenizer/word_piece.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "examples/lib/data/tokenizer/vocabulary_file.h"

namespace rueda::examples {
namespace {

// Settings as a BertTokenizer has them for this vocabulary if nothing is said but lower_case.
TokenizerSettings usual_settings(std::vector<std::optional<std::string>> vocabulary, bool lower_case) {
  TokenizerSettings settings{.vocabulary = std::move(vocabulary), .normalizer = {.lower_case = lower_case}};
  AddedTokenIds ids(settings.vocabulary);
  for (const SpecialTokenKey& key : kSpecialTokenKeys) {
    const std::string& name = settings.special.*key.name;
    if (ids.knows(name)) settings.added.push_back({.content = name, .id = ids.add(name)});
  }
  std::ranges::sort(settings.added, {}, &AddedToken::id);
  return settings;
}

// All but the vocabulary and lower_case.
std::string words_of(const TokenizerSettings& settings) {
  const SpecialTokens& names = settings.special;
  std::string words = fmt::format("clean {} ideographs {} accents {} prefix {} most {} names {} {} {} {} {}",
                                  settings.normalizer.clean_text, settings.normalizer.separate_ideographs,
                                  settings.normalizer.strips_accents() == settings.normalizer.lower_case,
                                  settings.continuation, settings.most_characters_per_word, names.classifier,
                                  names.separator, names.padding, names.unknown, names.mask);
  for (const AddedToken& token : settings.added)
    words += fmt::format(" added {} {} {} {} {} {}", token.content, token.id, token.single_word, token.lstrip,
                         token.rstrip, token.normalized);
  return words;
}

}  // namespace

WordPieceTokenizer::WordPieceTokenizer(TokenizerSettings settings)
    : settings_(std::move(settings)),
      in_text_(settings_.added, /*normalized=*/false, settings_.normalizer),
      in_normalized_text_(settings_.added, /*normalized=*/true, settings_.normalizer) {
  index_vocabulary();
  index_added_tokens();
  find_special_tokens();
}

WordPieceTokenizer WordPieceTokenizer::from_file(const std::filesystem::path& vocab_txt, bool lower_case) {
  VocabularyFile file = read_vocabulary(vocab_txt);
  try {
    return WordPieceTokenizer(usual_settings(std::move(file.tokens), lower_case));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(words_of_error(fmt::format("{}: {}", vocab_txt.string(), error.what()),
                                            file.byte_order_mark, file.notes));
  }
}

void WordPieceTokenizer::index_vocabulary() {
  for (const std::optional<std::string>& token : settings_.vocabulary) {
    if (token) ids_.emplace(*token, static_cast<std::int32_t>(tokens_.size()));
    tokens_.push_back(token.value_or(""));
    longest_ = std::max(longest_, tokens_.back().size());
  }
}

void WordPieceTokenizer::index_added_tokens() {
  for (const AddedToken& token : settings_.added) {
    const auto id = static_cast<std::size_t>(token.id);
    if (id >= tokens_.size()) tokens_.resize(id + 1);
    const bool is_taken = id < settings_.vocabulary.size() && settings_.vocabulary[id];
    if ((is_taken || !tokens_[id].empty()) && tokens_[id] != token.content)
      throw std::runtime_error(fmt::format("the added token \"{}\" has the id {}, which \"{}\" has already",
                                           token.content, token.id, tokens_[id]));
    tokens_[id] = token.content;
  }
}

void WordPieceTokenizer::find_special_tokens() {
  std::vector<std::string> missing;
  const auto id_of = [&](const std::string& name) {
    if (const std::int32_t* id = find(name)) return *id;
    const auto added = std::ranges::find(settings_.added, name, &AddedToken::content);
    if (added != settings_.added.end() && name != settings_.special.unknown) return added->id;
    missing.push_back(name);
    return 0;
  };
  unknown_id_ = id_of(settings_.special.unknown);
  sep_id_ = id_of(settings_.special.separator);
  pad_id_ = id_of(settings_.special.padding);
  cls_id_ = id_of(settings_.special.classifier);
  mask_id_ = id_of(settings_.special.mask);
  if (!missing.empty())
    throw std::runtime_error(fmt::format(
        "the special tokens {} are missing; is this the vocabulary of a BERT?", fmt::join(missing, ", ")));
}

const std::string& WordPieceTokenizer::token(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= tokens_.size())
    throw std::out_of_range(
        fmt::format("token id {} is not in 0..{}", id, static_cast<std::ptrdiff_t>(tokens_.size()) - 1));
  return tokens_[static_cast<std::size_t>(id)];
}

const std::int32_t* WordPieceTokenizer::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? nullptr : &found->second;
}

std::vector<WordPieceTokenizer::Token> WordPieceTokenizer::tokenize(std::string_view utf8) const {
  if (utf8.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw std::length_error(
        fmt::format("a text of {} bytes is too long to tokenize; split it below 2 GiB", utf8.size()));
  std::vector<Token> tokens;
  std::size_t position = 0;
  const auto add_text_until = [&](std::size_t end) {
    if (end <= position) return;
    add_text(utf8.substr(position, end - position), static_cast<std::int32_t>(position), tokens);
  };
  for (const TokenFinder::Found& found : in_text_.find(utf8)) {
    add_text_until(found.begin);
    tokens.push_back(
        {found.id, static_cast<std::int32_t>(found.begin), static_cast<std::int32_t>(found.end)});
    position = found.end;
  }
  add_text_until(utf8.size());
  return tokens;
}

void WordPieceTokenizer::add_text(std::string_view utf8, std::int32_t base,
                                  std::vector<Token>& tokens) const {
  const std::vector<NormalizedCharacter> text = normalize_for_bert(utf8, settings_.normalizer);
  return in_normalized_text_.empty() ? add_words(text, base, tokens) : add_normalized(text, base, tokens);
}

// Looks for added tokens in normalized text, as UTF-8 once more.
void WordPieceTokenizer::add_normalized(std::span<const NormalizedCharacter> text, std::int32_t base,
                                        std::vector<Token>& tokens) const {
  std::string utf8;
  std::vector<std::size_t> characters;  // of each byte, which character it belongs to
  for (std::size_t i = 0; i < text.size(); ++i) {
    append_utf8(text[i].value, utf8);
    characters.resize(utf8.size(), i);
  }
  characters.push_back(text.size());
  std::size_t position = 0;
  for (const TokenFinder::Found& found : in_normalized_text_.find(utf8)) {
    const std::size_t begin = characters[found.begin], end = characters[found.end];
    if (begin > position) add_words(text.subspan(position, begin - position), base, tokens);
    tokens.push_back({found.id, base + text[begin].begin, base + text[end - 1].end});
    position = end;
  }
  if (position < text.size()) add_words(text.subspan(position), base, tokens);
}

void WordPieceTokenizer::add_words(std::span<const NormalizedCharacter> text, std::int32_t base,
                                   std::vector<Token>& tokens) const {
  for (const auto word : split_words(text)) add_word(word, base, tokens);
}

void WordPieceTokenizer::add_word(std::span<const NormalizedCharacter> word, std::int32_t base,
                                  std::vector<Token>& tokens) const {
  const Token unknown{unknown_id_, base + word.front().begin, base + word.back().end};
  if (word.size() > settings_.most_characters_per_word) return tokens.push_back(unknown);
  // `text` is the continuation ("##") and the word; ends[i] is the end of its i-th character. A piece that
  // begins later in the word is looked up with "##" written over the text before it.
  const std::string& continuation = settings_.continuation;
  std::string text = continuation;
  std::vector<std::size_t> ends{text.size()};
  for (const NormalizedCharacter& character : word) {
    append_utf8(character.value, text);
    ends.push_back(text.size());
  }
  const std::size_t tokens_before = tokens.size();
  for (std::size_t first = 0; first < word.size();) {
    const std::size_t begin = first == 0 ? ends[0] : ends[first] - continuation.size();
    if (first > 0) text.replace(begin, continuation.size(), continuation);
    std::size_t last = std::min(word.size(), first + longest_);
    const std::int32_t* id = nullptr;
    for (; last > first; --last) {
      id = find(std::string_view(text).substr(begin, ends[last] - begin));
      if (id != nullptr) break;
    }
    if (id == nullptr) {
      tokens.resize(tokens_before);
      return tokens.push_back(unknown);
    }
    tokens.push_back({*id, base + word[first].begin, base + word[last - 1].end});
    first = last;
  }
}

std::string unusual_settings(const TokenizerSettings& settings) {
  const std::string words = words_of(settings);
  const TokenizerSettings usual = usual_settings(settings.vocabulary, settings.normalizer.lower_case);
  return words == words_of(usual) ? "" : words;
}

}  // namespace rueda::examples
