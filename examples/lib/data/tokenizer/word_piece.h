// SPDX-License-Identifier: Apache-2.0
// The WordPiece tokenizer of BERT, equal to Hugging Face's BertTokenizer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "examples/lib/data/tokenizer/added_tokens.h"
#include "examples/lib/data/tokenizer/text_normalizer.h"

namespace rueda::examples {

// Which class of transformers a tokenizer is of. They read the same files differently.
enum class TokenizerClass {
  bert,     // BertTokenizer: tokenizer_config.json says how text is normalized
  generic,  // PreTrainedTokenizerFast: tokenizer.json says all
};

// The names of the tokens with a task of their own.
struct SpecialTokens {
  std::string classifier = "[CLS]";
  std::string separator = "[SEP]";
  std::string padding = "[PAD]";
  std::string unknown = "[UNK]";
  std::string mask = "[MASK]";
  friend bool operator==(const SpecialTokens&, const SpecialTokens&) = default;
};

// Beside a text: [CLS] and [SEP]. Beside two: [CLS], and [SEP] twice.
inline constexpr std::int32_t kTokensAroundText = 2, kTokensAroundPair = 3;

// The keys of these tokens in files, in the order in which transformers adds them.
struct SpecialTokenKey {
  std::string_view key;
  std::string SpecialTokens::*name;
};
inline constexpr std::array<SpecialTokenKey, 5> kSpecialTokenKeys = {
    {{"unk_token", &SpecialTokens::unknown},
     {"sep_token", &SpecialTokens::separator},
     {"pad_token", &SpecialTokens::padding},
     {"cls_token", &SpecialTokens::classifier},
     {"mask_token", &SpecialTokens::mask}}};

// All settings that decide which tokens a text becomes. A checkpoint contains them.
struct TokenizerSettings {
  std::vector<std::optional<std::string>> vocabulary;  // by id; ids may be left out
  std::vector<AddedToken> added;                       // in the order of their ids
  SpecialTokens special;
  NormalizerSettings normalizer;
  std::string continuation = "##";             // begins pieces that do not begin a word
  std::size_t most_characters_per_word = 100;  // longer words are unknown
  TokenizerClass tokenizer_class = TokenizerClass::bert;
  std::optional<std::int64_t> max_length;  // tokens in a text, for the reader of the checkpoint
  std::optional<std::string> begin_token;  // bos_token and eos_token: BERT has no use for them
  std::optional<std::string> end_token;
  std::vector<std::string> more_special;  // additional_special_tokens
};

// Splits text into word pieces of a vocabulary. Special tokens written out in the text ("[SEP]") become
// themselves, as in BertTokenizer. Immutable once loaded: any number of threads may tokenize at once.
class WordPieceTokenizer {
 public:
  static constexpr std::size_t kMostCharactersPerWord = 100;  // BERT's own limit

  struct Token {
    std::int32_t id;
    std::int32_t begin;  // bytes into the text given to tokenize()
    std::int32_t end;
    friend bool operator==(const Token&, const Token&) = default;
  };

  // Throws std::runtime_error naming the tokens at fault: a special one that is missing, two with one id.
  explicit WordPieceTokenizer(TokenizerSettings settings);

  // A vocab.txt with nothing beside it (vocabulary_file.h). Throws std::runtime_error naming the file.
  static WordPieceTokenizer from_file(const std::filesystem::path& vocab_txt, bool lower_case = true);

  // Bytes that are not valid UTF-8 are dropped. Adds no special tokens of its own. Throws std::length_error
  // on a text of 2 GiB or more.
  std::vector<Token> tokenize(std::string_view utf8) const;

  std::int32_t cls_id() const { return cls_id_; }
  std::int32_t sep_id() const { return sep_id_; }
  std::int32_t pad_id() const { return pad_id_; }
  std::int32_t unknown_id() const { return unknown_id_; }
  std::int32_t mask_id() const { return mask_id_; }
  const TokenizerSettings& settings() const { return settings_; }
  // One more than the highest id.
  std::size_t vocab_size() const { return tokens_.size(); }
  // Empty for an id that is left out. Throws std::out_of_range.
  const std::string& token(std::int32_t id) const;

 private:
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): of the standard library
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  void index_vocabulary();
  void index_added_tokens();
  void find_special_tokens();
  const std::int32_t* find(std::string_view token) const;
  void add_text(std::string_view utf8, std::int32_t base, std::vector<Token>& tokens) const;
  void add_normalized(std::span<const NormalizedCharacter> text, std::int32_t base,
                      std::vector<Token>& tokens) const;
  void add_words(std::span<const NormalizedCharacter> text, std::int32_t base,
                 std::vector<Token>& tokens) const;
  void add_word(std::span<const NormalizedCharacter> word, std::int32_t base,
                std::vector<Token>& tokens) const;

  TokenizerSettings settings_;
  std::vector<std::string> tokens_;  // by id, the added ones too
  std::size_t longest_ = 0;          // bytes of a token of the vocabulary: a piece has no more characters
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;  // of the vocabulary alone
  TokenFinder in_text_;
  TokenFinder in_normalized_text_;
  std::int32_t cls_id_ = 0, sep_id_ = 0, pad_id_ = 0, unknown_id_ = 0, mask_id_ = 0;
};

// How two tokenizers with the same tokens may differ all the same: their other settings, in words. Empty for
// one of a lower-casing BertTokenizer as it is by default.
std::string unusual_settings(const TokenizerSettings& settings);

}  // namespace rueda::examples
