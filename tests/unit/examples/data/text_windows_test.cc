// SPDX-License-Identifier: Apache-2.0
// Windows of plain, WikiText and review files: what fills them, and what is left out.
#include "examples/lib/data/text_windows.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>

#include "examples/lib/data/text_source.h"
#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Windows : public testing::Test {
 protected:
  Windows() {
    const std::string vocabulary =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\ntwo\nthree\nfour\nfive\nsix\n.\n=\nhead\n,\ngood\nbad\n";
    tokenizer_.emplace(WordPieceTokenizer::from_file(scratch_.write("vocab.txt", vocabulary)));
  }

  // Each window in words, without [CLS] and [SEP].
  std::vector<std::string> read(const std::string& name, const std::string& text,
                                std::int32_t max_length) const {
    std::vector<std::string> found;
    for (const TextWindow& window : read_text_windows(scratch_.write(name, text), *tokenizer_, max_length)) {
      EXPECT_EQ(window.input_ids.front(), tokenizer_->cls_id());
      EXPECT_EQ(window.input_ids.back(), tokenizer_->sep_id());
      EXPECT_LE(window.input_ids.size(), static_cast<std::size_t>(max_length));
      std::string words;
      for (std::size_t i = 1; i + 1 < window.input_ids.size(); ++i)
        words += (i > 1 ? " " : "") + tokenizer_->token(window.input_ids[i]);
      found.push_back(words);
    }
    return found;
  }

  std::string error(const std::string& name, const std::string& text, std::int32_t max_length = 10) const {
    return error_message([&] { read(name, text, max_length); });
  }

  ScratchFolder scratch_;
  std::optional<WordPieceTokenizer> tokenizer_;
};

TEST_F(Windows, TakeWholeSentencesAcrossParagraphs) {
  EXPECT_THAT(read("a.txt", "One two. Three\nfour five.\n\nSix. One.\n\n\nTwo three four five six.\n", 10),
              ElementsAre("one two . three four five .", "six . one .", "two three four five six ."));
}

TEST_F(Windows, CutASentenceThatIsTooLongAndGoOnBehindIt) {
  EXPECT_THAT(read("a.txt", "One. One two three four five six one two three. Four five.", 6),
              ElementsAre("one .", "one two three four", "five six one two", "three .", "four five ."));
  EXPECT_THAT(read("a.txt", "One two three four.", 3), ElementsAre("one", "two", "three", "four", "."));
}

TEST_F(Windows, OfAGutenbergFileLeaveOutWhatIsAroundTheBook) {
  const std::string book =
      "Five six\r\n*** START OF THE PROJECT GUTENBERG EBOOK 1 ***\r\nOne two.\r\n\r\nThree.\r\n"
      "*** END OF THE PROJECT GUTENBERG EBOOK 1 ***\r\nFive six.\r\n";
  EXPECT_THAT(read("a.txt", book, 20), ElementsAre("one two . three ."));
  EXPECT_THAT(read("a.txt", book + book, 20), ElementsAre("one two . three .", "one two . three ."));
  EXPECT_THAT(read("a.txt", "One.\n*** END OF IT\nTwo.", 20), ElementsAre("one ."));
}

TEST_F(Windows, OfWikiTextStayInOneArticleAndLeaveOutHeadings) {
  const std::string text =
      " \n = Head = \n \n One <unk> two . \n \n = = Head = = \n \n Three , <unk> . \n \n = Head = \n \n Four "
      ". \n";
  EXPECT_EQ(text_format(scratch_.write("a.txt", text)), TextFormat::wikitext);
  EXPECT_THAT(read("a.txt", text, 20), ElementsAre("one [UNK] two . three , [UNK] .", "four ."));
}

TEST_F(Windows, OfReviewsAreALineEachWithoutLabel) {
  const std::string text = "Good, one two.  \t1\nBad.\t0\n\nOne two three four\t0\n";
  EXPECT_EQ(text_format(scratch_.write("a.txt", text)), TextFormat::reviews);
  EXPECT_THAT(read("a.txt", text, 5), ElementsAre("good , one", "bad .", "one two three"));
  EXPECT_THAT(read("a.tsv", "sentence\tlabel\nOne\t1\n", 5), ElementsAre("one"));
  EXPECT_THAT(error("a.tsv", "one\t1\ntwo\n"), HasSubstr("a.tsv:2: a text, a tab and a label are needed"));
}

TEST_F(Windows, BadInputIsNamed) {
  EXPECT_THAT(error("a.txt", " \n\n"), HasSubstr("a.txt: there is no text in it (read as plain text)"));
  EXPECT_THAT(error("a.txt", "one\n\nt\xC3\n"), HasSubstr("a.txt:3: not valid UTF-8"));
  EXPECT_THAT(error("a.txt", "one", 2), HasSubstr("max_length is 2"));
  EXPECT_THAT(error_message([&] { read_text_windows(scratch_.path() / "none", *tokenizer_, 9); }),
              HasSubstr("cannot open"));
}

TEST_F(Windows, BadLinesMayBeLeftOut) {
  const auto read = [&](const std::string& name, const std::string& text, OnBadItems on_bad) {
    return TextCorpus::open(scratch_.write(name, text), *tokenizer_, 9, TokenCache(scratch_.path() / "cache"),
                            on_bad);
  };
  const std::string plain = "One two.\nt\xC3\nThree.\n", reviews = "One\t1\ntwo\nthree\t0\n\xC3\t0\n";
  for (int again = 0; again < 2; ++again) {  // then from the cache
    EXPECT_THAT(
        error_message([&] { read("a.txt", plain, OnBadItems::refuse); }),
        HasSubstr("a.txt:2: not valid UTF-8 (byte 0xc3); convert the file to UTF-8; correct it, or leave it "
                  "out with --bad-items skip"));
    const TextCorpus text = read("a.txt", plain, OnBadItems::skip);
    EXPECT_EQ(text.size(), 1U);
    EXPECT_EQ(text[0].size(), 7U);  // "one two . three ." and [CLS], [SEP]
    EXPECT_EQ(text.bad().count(), 1U);
    const TextCorpus lines = read("a.tsv", reviews, OnBadItems::skip);
    EXPECT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines.bad().count(), 2U);
  }
  EXPECT_THAT(error_message([&] { read("b.txt", "\xC3\n", OnBadItems::skip); }),
              HasSubstr("b.txt:1: not valid UTF-8"));
}

TEST_F(Windows, TextWithoutEmptyLinesIsReadInPieces) {
  std::string text;
  for (int i = 0; i < 300000; ++i) text += "one two.\n";
  std::size_t tokens = 0;
  read_text_windows(scratch_.write("a.txt", text), *tokenizer_, 512,
                    [&](std::span<const std::int32_t> ids) { tokens += ids.size() - 2; });
  EXPECT_EQ(tokens, 900000U);
}

TEST_F(Windows, OfTheCacheAreThoseOfTheFile) {
  const auto path = scratch_.write("a.txt", "One two. Three\nfour five.\n\nSix. One.\n");
  const auto expected = read_text_windows(path, *tokenizer_, 9);
  for (const TokenCache& cache : {TokenCache::none(), TokenCache(scratch_.path() / "cache")}) {
    const TextCorpus corpus = TextCorpus::open(path, *tokenizer_, 9, cache);
    ASSERT_EQ(corpus.size(), expected.size());
    for (std::size_t i = 0; i < corpus.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(corpus[i], expected[i].input_ids));
  }
}

TEST(Subset, IsAShareInOrderTheSameEverywhere) {
  const auto tenth = subset(1000, 0.1, 7);
  EXPECT_EQ(tenth.size(), 100U);
  EXPECT_TRUE(std::ranges::is_sorted(tenth));
  EXPECT_EQ(tenth, subset(1000, 0.1, 7));
  EXPECT_NE(tenth, subset(1000, 0.1, 8));
  std::vector<std::size_t> all(10);
  std::iota(all.begin(), all.end(), std::size_t{0});
  EXPECT_EQ(subset(10, 1, 3), all);
  EXPECT_EQ(subset(3, 0.01, 3).size(), 1U);
  EXPECT_TRUE(subset(0, 0.5, 3).empty());
  for (const double share : {0.0, -1.0, 1.5, std::nan("")})
    EXPECT_THROW(subset(3, share, 1), std::invalid_argument);
}

}  // namespace
}  // namespace rueda::examples
