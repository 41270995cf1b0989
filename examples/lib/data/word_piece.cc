// SPDX-License-Identifier: Apache-2.0
// Loading the vocabulary, special tokens, and greedy longest-match word pieces.
#include "examples/lib/data/word_piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include "examples/lib/data/json_file.h"

namespace rueda::examples {
namespace {

constexpr std::array<std::string_view, 5> kSpecialTokens = {"[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"};
constexpr std::string_view kContinuation = "##";

// Where the next special token written out in `text` begins, at or after `from`; sets `which`. npos if there
// is none.
std::size_t find_special(std::string_view text, std::size_t from, std::string_view& which) {
  for (std::size_t at = text.find('[', from); at != text.npos; at = text.find('[', at + 1)) {
    for (const std::string_view special : kSpecialTokens) {
      if (!text.substr(at).starts_with(special)) continue;
      which = special;
      return at;
    }
  }
  return text.npos;
}

}  // namespace

WordPieceTokenizer WordPieceTokenizer::from_file(const std::filesystem::path& vocab_txt, bool lower_case) {
  const std::string text = read_text(vocab_txt);
  const std::string file = vocab_txt.string();
  WordPieceTokenizer tokenizer;
  tokenizer.lower_case_ = lower_case;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string token = text.substr(begin, end - begin);
    begin = end + 1;
    if (token.ends_with('\r')) token.pop_back();
    const auto line = tokenizer.tokens_.size() + 1;
    if (token.empty())
      throw std::runtime_error(fmt::format("{}:{}: empty line; each line must be a token", file, line));
    const auto [place, added] = tokenizer.ids_.emplace(token, static_cast<std::int32_t>(line - 1));
    if (!added)
      throw std::runtime_error(
          fmt::format("{}:{}: token \"{}\" stands already on line {}", file, line, token, place->second + 1));
    tokenizer.tokens_.push_back(std::move(token));
  }
  std::string missing;
  for (const std::string_view special : kSpecialTokens)
    if (tokenizer.find(special) == nullptr)
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", special);
  if (!missing.empty())
    throw std::runtime_error(
        fmt::format("{}:{}: the vocabulary ends without the special tokens {}; is this a BERT vocab.txt?",
                    file, tokenizer.tokens_.size(), missing));
  tokenizer.cls_id_ = *tokenizer.find("[CLS]");
  tokenizer.sep_id_ = *tokenizer.find("[SEP]");
  tokenizer.pad_id_ = *tokenizer.find("[PAD]");
  tokenizer.unknown_id_ = *tokenizer.find("[UNK]");
  tokenizer.mask_id_ = *tokenizer.find("[MASK]");
  return tokenizer;
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
  std::size_t begin = 0;
  while (begin < utf8.size()) {
    std::string_view special;
    const std::size_t at = std::min(find_special(utf8, begin, special), utf8.size());
    add_text(utf8.substr(begin, at - begin), static_cast<std::int32_t>(begin), tokens);
    if (special.empty()) break;
    begin = at + special.size();
    tokens.push_back({*find(special), static_cast<std::int32_t>(at), static_cast<std::int32_t>(begin)});
  }
  return tokens;
}

void WordPieceTokenizer::add_text(std::string_view utf8, std::int32_t base,
                                  std::vector<Token>& tokens) const {
  const std::vector<NormalizedCharacter> text = normalize_for_bert(utf8, lower_case_);
  for (const auto word : split_words(text)) add_word(word, base, tokens);
}

void WordPieceTokenizer::add_word(std::span<const NormalizedCharacter> word, std::int32_t base,
                                  std::vector<Token>& tokens) const {
  // `text` is "##" and the word; ends[i] is where its i-th character ends. A piece that begins later in the
  // word is looked up with "##" written over what stands before it: two bytes are always there.
  std::string text(kContinuation);
  std::array<std::size_t, kMostCharactersPerWord + 1> ends{text.size()};
  const Token unknown{unknown_id_, base + word.front().begin, base + word.back().end};
  if (word.size() > kMostCharactersPerWord) return tokens.push_back(unknown);
  for (std::size_t i = 0; i < word.size(); ++i) {
    append_utf8(word[i].value, text);
    ends[i + 1] = text.size();
  }
  const std::size_t tokens_before = tokens.size();
  for (std::size_t first = 0; first < word.size();) {
    const std::size_t begin = first == 0 ? ends[0] : ends[first] - kContinuation.size();
    if (first > 0) text.replace(begin, kContinuation.size(), kContinuation);
    std::size_t last = word.size();
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

}  // namespace rueda::examples
