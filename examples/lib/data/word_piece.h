// SPDX-License-Identifier: Apache-2.0
// The WordPiece tokenizer of BERT, equal to Hugging Face's BertTokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "examples/lib/data/text_normalizer.h"

namespace rueda::examples {

// Splits text into word pieces of a vocabulary. Special tokens written out in the text ("[SEP]") become
// themselves, as in BertTokenizer. Immutable once loaded: any number of threads may tokenize at once.
class WordPieceTokenizer {
 public:
  static constexpr std::size_t kMostCharactersPerWord = 100;  // longer words are unknown, as in BERT

  struct Token {
    std::int32_t id;
    std::int32_t begin;  // bytes into the text given to tokenize()
    std::int32_t end;
    friend bool operator==(const Token&, const Token&) = default;
  };

  // One token a line. Throws std::runtime_error naming the file and the line: unreadable, empty or repeated
  // token, special token missing.
  static WordPieceTokenizer from_file(const std::filesystem::path& vocab_txt, bool lower_case = true);

  // Bytes that are not valid UTF-8 are dropped. Adds no special tokens of its own. Throws std::length_error
  // on a text of 2 GiB or more.
  std::vector<Token> tokenize(std::string_view utf8) const;

  std::int32_t cls_id() const { return cls_id_; }
  std::int32_t sep_id() const { return sep_id_; }
  std::int32_t pad_id() const { return pad_id_; }
  std::int32_t unknown_id() const { return unknown_id_; }
  std::int32_t mask_id() const { return mask_id_; }
  bool lower_case() const { return lower_case_; }
  std::size_t vocab_size() const { return tokens_.size(); }
  // Throws std::out_of_range.
  const std::string& token(std::int32_t id) const;

 private:
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): of the standard library
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  WordPieceTokenizer() = default;
  const std::int32_t* find(std::string_view token) const;
  void add_text(std::string_view utf8, std::int32_t base, std::vector<Token>& tokens) const;
  void add_word(std::span<const NormalizedCharacter> word, std::int32_t base,
                std::vector<Token>& tokens) const;

  bool lower_case_ = true;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::int32_t cls_id_ = 0, sep_id_ = 0, pad_id_ = 0, unknown_id_ = 0, mask_id_ = 0;
};

}  // namespace rueda::examples
