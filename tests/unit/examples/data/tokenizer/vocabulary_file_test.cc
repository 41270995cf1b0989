// SPDX-License-Identifier: Apache-2.0
// Files of tokens as they are found, read as transformers reads them, and written so that they are read so
// again.
#include "examples/lib/data/tokenizer/vocabulary_file.h"

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

using Tokens = std::vector<std::optional<std::string>>;

class VocabularyFiles : public testing::Test {
 protected:
  VocabularyFile read(const std::string& text) { return read_vocabulary(scratch_.write("vocab.txt", text)); }

  ScratchFolder scratch_;
};

TEST_F(VocabularyFiles, LinesEndAsOnAnySystem) {
  EXPECT_THAT(read("a\nb\n").tokens, ElementsAre("a", "b"));
  EXPECT_THAT(read("a\r\nb\r\n").tokens, ElementsAre("a", "b"));
  EXPECT_THAT(read("a\nb").tokens, ElementsAre("a", "b"));
  EXPECT_THAT(read("").tokens, IsEmpty());
}

TEST_F(VocabularyFiles, AnEmptyLineHasANumberToo) {
  EXPECT_THAT(read("a\n\nb\n").tokens, ElementsAre("a", "", "b"));
  EXPECT_THAT(read("a\n\nb\n\n").tokens, ElementsAre("a", std::nullopt, "b", ""));
}

TEST_F(VocabularyFiles, OfRepeatedTokensTheLastOneCounts) {
  EXPECT_THAT(read("a\nb\na\nc\na\n").tokens, ElementsAre(std::nullopt, "b", std::nullopt, "c", "a"));
}

TEST_F(VocabularyFiles, SpaceBehindATokenDoesNotCountAndIsTold) {
  const VocabularyFile file = read("a\n b \nc\u00a0\n\u3000\n");
  EXPECT_THAT(file.tokens, ElementsAre("a", " b", "c", ""));
  EXPECT_THAT(file.notes, ElementsAre(HasSubstr("vocab.txt:2: white space behind the token")));
  EXPECT_THAT(read("a\n\u2028\n").notes, IsEmpty());  // of white space alone nothing depends
}

TEST_F(VocabularyFiles, AByteOrderMarkIsPartOfTheFirstToken) {
  const VocabularyFile file = read("\uFEFFa\nb\n");
  EXPECT_THAT(file.tokens, ElementsAre("\uFEFFa", "b"));
  EXPECT_THAT(file.byte_order_mark, HasSubstr("vocab.txt:1: a byte order mark"));
  EXPECT_EQ(read("a\n\uFEFFb\n").byte_order_mark, "");
}

TEST_F(VocabularyFiles, WhatVersionsReadDifferentlyIsRefused) {
  EXPECT_THAT(error_message([&] { read("x\na\rb\n"); }),
              HasSubstr("vocab.txt:2: a carriage return inside the line"));
  EXPECT_THAT(error_message([&] { read("a\r\r\nb\r\n"); }), HasSubstr("vocab.txt:1: a carriage return"));
}

TEST_F(VocabularyFiles, APointerOfGitLfsIsNamed) {
  EXPECT_THAT(error_message(
                  [&] { read("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 231508\n"); }),
              HasSubstr("vocab.txt is a pointer of Git LFS, not the file itself; run `git lfs pull`"));
}

TEST_F(VocabularyFiles, LinesAreReadAsTheSameVocabulary) {
  for (const Tokens& tokens : {Tokens{"a", "b", "c"}, Tokens{"a", std::nullopt, "b"},
                               Tokens{"", "a", std::nullopt, "b"}, Tokens{std::nullopt, "\uFEFF", "a"}}) {
    std::string text;
    for (const std::string& line : vocabulary_lines(tokens)) text += line + '\n';
    EXPECT_EQ(read(text).tokens, tokens) << text;
  }
  EXPECT_THAT(vocabulary_lines({"a", "b\n", "c ", "d", "\r"}), ElementsAre("a", "d", "d", "d"));
}

}  // namespace
}  // namespace rueda::examples
