// SPDX-License-Identifier: Apache-2.0
// Tokens found in a text; the results are those of Hugging Face's library.
#include "examples/lib/data/tokenizer/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// "id@begin-end" of each that is found.
std::vector<std::string> found(const std::vector<AddedToken>& tokens, const std::string& text,
                               bool normalized = false) {
  std::vector<std::string> words;
  for (const auto& one : TokenFinder(tokens, normalized, {}).find(text))
    words.push_back(std::to_string(one.id) + "@" + std::to_string(one.begin) + "-" + std::to_string(one.end));
  return words;
}

TEST(TokenFinder, TheLeftmostAndThenTheLongestCounts) {
  const std::vector<AddedToken> tokens = {{"ab", 1}, {"abc", 2}, {"bcd", 3}, {"[", 4}};
  EXPECT_THAT(found(tokens, "abcd ab"), ElementsAre("2@0-3", "1@5-7"));
  EXPECT_THAT(found(tokens, "xbcd[[x"), ElementsAre("3@1-4", "4@4-5", "4@5-6"));
  EXPECT_THAT(found(tokens, "a b c"), IsEmpty());
  EXPECT_THAT(found(tokens, ""), IsEmpty());
  EXPECT_THAT(found({}, "abc"), IsEmpty());
}

TEST(TokenFinder, AWordByItselfHasNoLetterBesideIt) {
  const std::vector<AddedToken> tokens = {{.content = "foo", .id = 1, .single_word = true}};
  EXPECT_THAT(found(tokens, "foo foo, (foo)"), ElementsAre("1@0-3", "1@4-7", "1@10-13"));
  EXPECT_THAT(found(tokens, "xfoo foo1 foo_ éfoo fooé foo\u0301 foo漢"), IsEmpty());
  EXPECT_THAT(found(tokens, "-foo- \U0001F600foo"), ElementsAre("1@1-4", "1@10-13"));
}

TEST(TokenFinder, OneThatStripsTakesTheSpaceBesideIt) {
  EXPECT_THAT(found({{.content = "foo", .id = 1, .lstrip = true}}, "a \u3000foo b"), ElementsAre("1@1-8"));
  EXPECT_THAT(found({{.content = "foo", .id = 1, .rstrip = true}}, "a foo \t\nb"), ElementsAre("1@2-8"));
  const std::vector<AddedToken> both = {{.content = "foo", .id = 1, .lstrip = true, .rstrip = true}};
  EXPECT_THAT(found(both, " foo  foo "), ElementsAre("1@0-6", "1@6-10"));  // the space between is taken once
}

TEST(TokenFinder, ANormalizedTokenIsLookedForAsItIsNormalized) {
  const std::vector<AddedToken> tokens = {{.content = "FÓO", .id = 1, .normalized = true}, {"bar", 2}};
  EXPECT_THAT(found(tokens, "foo bar FÓO", true), ElementsAre("1@0-3"));
  EXPECT_THAT(found(tokens, "foo bar FÓO", false), ElementsAre("2@4-7"));
}

TEST(TokenFinder, OneOfWhichNothingIsLeftIsRefused) {
  EXPECT_THAT(error_message([] { found({{.content = "\u200b", .id = 1, .normalized = true}}, "", true); }),
              HasSubstr("nothing is left"));
}

TEST(AddedTokenIds, FollowTheVocabulary) {
  const std::vector<std::optional<std::string>> vocabulary = {"a", "b", "c"};
  AddedTokenIds ids(vocabulary);
  EXPECT_EQ(ids.add("b"), 1);
  EXPECT_EQ(ids.add("x"), 3);
  EXPECT_EQ(ids.add("y"), 4);
  EXPECT_EQ(ids.add("x"), 3);
  EXPECT_TRUE(ids.knows("c"));
  EXPECT_FALSE(ids.knows("x"));
}

TEST(AddedTokenIds, CountTokensWhereIdsAreLeftOut) {
  const std::vector<std::optional<std::string>> vocabulary = {"a", std::nullopt, std::nullopt, "b"};
  AddedTokenIds ids(vocabulary);
  EXPECT_EQ(ids.add("x"), 2);
  EXPECT_EQ(ids.add("b"), 3);
  EXPECT_EQ(ids.add("y"), 4);  // behind the highest id that was added
}

}  // namespace
}  // namespace rueda::examples
