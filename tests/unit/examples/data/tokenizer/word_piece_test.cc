// SPDX-License-Identifier: Apache-2.0
// Word pieces and their offsets on a small vocabulary; equality with transformers is tested in tests/python.
#include "examples/lib/data/tokenizer/word_piece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class WordPiece : public testing::Test {
 protected:
  static constexpr const char* kVocabulary =
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\ncafe\ni\n##s\n.\n漢\n$\nσισυφος\nβ\nE\n[\n";

  WordPieceTokenizer load(const std::string& text, bool lower_case = true) {
    return WordPieceTokenizer::from_file(scratch_.write("vocab.txt", text), lower_case);
  }
  // "token@begin-end" for each token.
  std::vector<std::string> tokens(std::string_view text, bool lower_case = true) {
    const auto tokenizer = load(kVocabulary, lower_case);
    std::vector<std::string> result;
    for (const auto& token : tokenizer.tokenize(text))
      result.push_back(tokenizer.token(token.id) + "@" + std::to_string(token.begin) + "-" +
                       std::to_string(token.end));
    return result;
  }
  std::string error_of(const std::string& vocabulary) {
    return error_message([&] { load(vocabulary); });
  }

  ScratchFolder scratch_;
};

TEST_F(WordPiece, LongestMatchFirst) {
  EXPECT_THAT(tokens("Unaffable"), ElementsAre("un@0-2", "##aff@2-5", "##able@5-9"));
  EXPECT_THAT(tokens("unaffablex un"), ElementsAre("[UNK]@0-10", "un@11-13"));
}

TEST_F(WordPiece, OffsetsAreThoseOfTheOriginalBytes) {
  EXPECT_THAT(tokens("CAFÉ."), ElementsAre("cafe@0-5", ".@5-6"));  // É: two bytes, one of them an accent
  EXPECT_THAT(tokens("cafe\u0301 un"),
              ElementsAre("cafe@0-4", "un@7-9"));  // the accent is a character of its own
  EXPECT_THAT(tokens("c\u0301afe"), ElementsAre("cafe@0-6"));
  EXPECT_THAT(tokens("İs"), ElementsAre("i@0-2", "##s@2-3"));                          // a dot above, dropped
  EXPECT_THAT(tokens("ΣΊΣΥΦΟΣ ΣΊΣΥΦΟς"), ElementsAre("[UNK]@0-14", "σισυφος@15-29"));  // no final sigma rule
}

TEST_F(WordPiece, IdeographsAndPunctuationStandAlone) {
  EXPECT_THAT(tokens("un漢un"), ElementsAre("un@0-2", "漢@2-5", "un@5-7"));
  EXPECT_THAT(tokens("un$.un"), ElementsAre("un@0-2", "$@2-3", ".@3-4", "un@4-6"));
}

TEST_F(WordPiece, ControlCharactersVanishAndWhiteSpaceSeparates) {
  EXPECT_THAT(tokens("u\u200b\x01n"), ElementsAre("un@0-6"));
  EXPECT_THAT(tokens("un\u3000un\tun"), ElementsAre("un@0-2", "un@5-7", "un@8-10"));
  EXPECT_THAT(tokens("u\xffn\xc3"), ElementsAre("un@0-3"));  // not valid UTF-8
  EXPECT_THAT(tokens(" \t\u200b"), IsEmpty());
  EXPECT_THAT(tokens(""), IsEmpty());
}

TEST_F(WordPiece, SpecialTokensInTheText) {
  EXPECT_THAT(tokens("un[SEP]un [MASK]"), ElementsAre("un@0-2", "[SEP]@2-7", "un@7-9", "[MASK]@10-16"));
  EXPECT_THAT(tokens("[sep]"), ElementsAre("[@0-1", "[UNK]@1-4", "[UNK]@4-5"));
}

TEST_F(WordPiece, WordsOfMoreThanAHundredCharactersAreUnknown) {
  const auto tokenizer = load("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nβ\n##β\n");
  for (const std::string letter : {"a", "β"}) {
    std::string word;
    for (int i = 0; i < 100; ++i) word += letter;
    EXPECT_EQ(tokenizer.tokenize(word).size(), 100U);
    const auto longer = tokenizer.tokenize(word + letter);
    ASSERT_EQ(longer.size(), 1U);
    EXPECT_EQ(longer[0], (WordPieceTokenizer::Token{1, 0, static_cast<std::int32_t>(101 * letter.size())}));
  }
}

TEST_F(WordPiece, CaseIsKeptOnRequest) {
  EXPECT_THAT(tokens("E e", false), ElementsAre("E@0-1", "[UNK]@2-3"));
  EXPECT_THAT(tokens("café", false), ElementsAre("[UNK]@0-5"));
}

TEST_F(WordPiece, KnowsItsVocabulary) {
  const auto tokenizer = load("a\r\n[MASK]\r\n[UNK]\r\n[PAD]\r\n[SEP]\r\n[CLS]");
  EXPECT_EQ(tokenizer.vocab_size(), 6U);
  EXPECT_EQ(tokenizer.mask_id(), 1);
  EXPECT_EQ(tokenizer.unknown_id(), 2);
  EXPECT_EQ(tokenizer.pad_id(), 3);
  EXPECT_EQ(tokenizer.sep_id(), 4);
  EXPECT_EQ(tokenizer.cls_id(), 5);
  EXPECT_EQ(tokenizer.token(0), "a");
  EXPECT_THROW(tokenizer.token(6), std::out_of_range);
  EXPECT_THROW(tokenizer.token(-1), std::out_of_range);
}

TEST_F(WordPiece, BadVocabulariesAreNamed) {
  const std::string file = (scratch_.path() / "vocab.txt").string();
  EXPECT_THAT(error_of("[PAD]\n[UNK]\na\n"),
              HasSubstr(file + ": the special tokens [SEP], [CLS], [MASK] are missing"));
  EXPECT_THAT(error_of(""), HasSubstr("special tokens [UNK], [SEP], [PAD], [CLS], [MASK]"));
  EXPECT_THAT(error_of("a\n\xff\n"), HasSubstr(file + ":2:1: not valid UTF-8"));
  EXPECT_THAT(error_of("\xEF\xBB\xBF[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"),
              AllOf(HasSubstr("the special tokens [PAD] are missing"), HasSubstr("a byte order mark")));
}

// A tokenizer with settings that no vocab.txt has.
TokenizerSettings settings_of(const std::vector<std::string>& words) {
  TokenizerSettings settings;
  for (const std::string token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    settings.vocabulary.emplace_back(token);
  settings.vocabulary.insert(settings.vocabulary.end(), words.begin(), words.end());
  return settings;
}

std::vector<std::string> tokens_of(const TokenizerSettings& settings, std::string_view text) {
  const WordPieceTokenizer tokenizer(settings);
  std::vector<std::string> tokens;
  for (const auto& token : tokenizer.tokenize(text)) tokens.push_back(tokenizer.token(token.id));
  return tokens;
}

TEST(WordPieceSettings, TheContinuationAndTheLongestWordAreOfTheSettings) {
  TokenizerSettings settings = settings_of({"un", "able", "##able", "@able", "x"});
  settings.continuation = "@";
  EXPECT_THAT(tokens_of(settings, "unable x"), ElementsAre("un", "@able", "x"));
  settings.continuation = "";
  EXPECT_THAT(tokens_of(settings, "unable"), ElementsAre("un", "able"));
  settings.continuation = "##";
  settings.most_characters_per_word = 6;
  EXPECT_THAT(tokens_of(settings, "unable"), ElementsAre("un", "##able"));
  settings.most_characters_per_word = 5;
  EXPECT_THAT(tokens_of(settings, "unable"), ElementsAre("[UNK]"));
}

TEST(WordPieceSettings, IdsMayBeLeftOut) {
  TokenizerSettings settings = settings_of({"a"});
  settings.vocabulary.emplace_back();
  settings.vocabulary.emplace_back("b");
  const WordPieceTokenizer tokenizer(settings);
  EXPECT_EQ(tokenizer.vocab_size(), 8U);
  EXPECT_EQ(tokenizer.token(6), "");
  EXPECT_EQ(tokenizer.tokenize("b")[0].id, 7);
}

TEST(WordPieceSettings, AddedTokensMayStandInNormalizedText) {
  TokenizerSettings settings = settings_of({"a", "b"});
  settings.added = {{.content = "FoO", .id = 7, .normalized = true}};
  EXPECT_THAT(tokens_of(settings, "a foo bFÓOb a"), ElementsAre("a", "FoO", "b", "FoO", "b", "a"));
  settings.added[0].normalized = false;
  EXPECT_THAT(tokens_of(settings, "a foo FoOb"), ElementsAre("a", "[UNK]", "FoO", "b"));
}

TEST(WordPieceSettings, TwoTokensWithOneIdAreRefused) {
  TokenizerSettings settings = settings_of({"a"});
  settings.added = {{.content = "b", .id = 5}};
  EXPECT_THAT(error_message([&] { WordPieceTokenizer{settings}; }),
              HasSubstr("the added token \"b\" has the id 5, which \"a\" has already"));
  settings.added = {{.content = "\u200b", .id = 6, .normalized = true}};
  EXPECT_THAT(error_message([&] { WordPieceTokenizer{settings}; }), HasSubstr("nothing is left to look for"));
}

TEST(WordPieceSettings, WhatDiffersIsToldApart) {
  TokenizerSettings settings = settings_of({"a"});
  for (const auto& [index, token] :
       {std::pair(0, "[PAD]"), {1, "[UNK]"}, {2, "[CLS]"}, {3, "[SEP]"}, {4, "[MASK]"}})
    settings.added.push_back({.content = token, .id = index});
  EXPECT_EQ(unusual_settings(settings), "");
  settings.normalizer = {.strip_accents = false, .lower_case = false};
  EXPECT_EQ(unusual_settings(settings), "");  // as by default for what is not lower-cased
  settings.normalizer.strip_accents = true;
  EXPECT_NE(unusual_settings(settings), "");
  settings.normalizer.strip_accents.reset();
  settings.added.push_back({.content = "a", .id = 5});
  EXPECT_NE(unusual_settings(settings), "");
}

}  // namespace
}  // namespace rueda::examples
