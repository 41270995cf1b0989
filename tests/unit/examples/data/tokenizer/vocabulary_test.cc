// SPDX-License-Identifier: Apache-2.0
// Which pieces are joined, in which order, and that the tokenizer reads the result.
#include "examples/lib/data/tokenizer/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "examples/lib/data/tokenizer/word_piece.h"
#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> train(const std::string& text, const VocabularySettings& settings,
                               bool lower_case = true) {
  WordCounts words(lower_case);
  words.add(text);
  std::vector<std::string> tokens = train_vocabulary(words, settings);
  EXPECT_GE(tokens.size(), 5U);
  tokens.erase(tokens.begin(), tokens.begin() + 5);
  return tokens;
}

TEST(Vocabulary, JoinsTheMostFrequentNeighboursFirst) {
  // ab: 4 times, bc behind a: twice, xy: twice.
  EXPECT_THAT(
      train("ab ab abc abc xy xy z.", {}),
      ElementsAre(".", "a", "b", "c", "x", "y", "z", "##a", "##b", "##c", "##x", "##y", "ab", "xy", "abc"));
  EXPECT_THAT(train("ab ab abc xy xy xy", {.size = 16, .min_count = 3}),
              ElementsAre("a", "b", "c", "x", "y", "##a", "##b", "##c", "##x", "##y", "ab"));
}

TEST(Vocabulary, OfEqualPairsTheLowerIdsComeFirst) {
  EXPECT_THAT(train("zd ba zd ba", {.size = 14}),
              ElementsAre("a", "b", "d", "z", "##a", "##b", "##d", "##z", "ba"));
}

TEST(Vocabulary, RepeatedLettersAreJoinedFromTheLeft) {
  EXPECT_THAT(train("aaaa aaaa", {}), ElementsAre("a", "##a", "##aa", "aaa", "aaaa"));
}

TEST(Vocabulary, StartsWithTheSpecialTokensAndIsReadByTheTokenizer) {
  WordCounts words(true);
  words.add("The Theatre [UNK] théâtre, the [MASK] the. \xE6\xBC\xA2\xE5\xAD\x97");
  const auto tokens = train_vocabulary(words, {});
  EXPECT_THAT(std::vector(tokens.begin(), tokens.begin() + 5),
              ElementsAre("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"));
  EXPECT_THAT(tokens, Not(Contains("[")));
  EXPECT_THAT(tokens, Contains("theatre"));
  EXPECT_THAT(tokens, Not(Contains("##,")));
  std::string file;
  for (const std::string& token : tokens) file += token + "\n";
  const ScratchFolder scratch;
  const auto tokenizer = WordPieceTokenizer::from_file(scratch.write("vocab.txt", file));
  const auto found = tokenizer.tokenize("Theatre the \xE6\xBC\xA2 threat");
  EXPECT_EQ(tokenizer.token(found.at(0).id), "theatre");
  for (const auto& token : found) EXPECT_NE(token.id, tokenizer.unknown_id());
}

TEST(Vocabulary, RareCharactersAreLeftOut) {
  const auto tokens = train("aa aa ab q", {.alphabet = 2});
  EXPECT_THAT(tokens, ElementsAre("a", "b", "##a", "##b", "aa"));
  EXPECT_THAT(train("aé Aé", {}, false), ElementsAre("A", "a", "é", "##A", "##a", "##é"));
}

TEST(Vocabulary, BadSettingsAreNamed) {
  EXPECT_THAT(error_message([] { train("ab", {.size = 8}); }),
              HasSubstr("a vocabulary of 8 has no room for the 9"));
  EXPECT_THAT(error_message([] { train(" ", {}); }), HasSubstr("there is no word"));
}

}  // namespace
}  // namespace rueda::examples
