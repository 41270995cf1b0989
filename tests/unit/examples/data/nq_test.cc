// SPDX-License-Identifier: Apache-2.0
// Lines of Natural Questions: types, spans in words and in pieces, the file, and what is said of bad lines.
#include "examples/lib/data/nq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "examples/lib/data/nq_corpus.h"
#include "tests/support/gzip_text.h"
#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

json span_of(int begin, int end) { return {{"start_token", begin}, {"end_token", end}}; }

// Vectors, as a json of one in braces is no array.
json annotation(const json& long_answer, const std::vector<json>& short_answers, const std::string& yes_no) {
  return {{"long_answer", long_answer}, {"short_answers", short_answers}, {"yes_no_answer", yes_no}};
}

// Words: 0 <P>, 1 one, 2 two, 3 threes, 4 </P>, 5 four
json example(const std::vector<json>& annotations) {
  return {{"example_id", 5655493461695504401},
          {"question_text", "one threes"},
          {"document_text", "<P> one two threes </P> four"},
          {"document_url", "https://example.com"},
          {"long_answer_candidates", {{{"start_token", 0}, {"end_token", 5}, {"top_level", true}}}},
          {"annotations", annotations}};
}

NqAnnotation parsed(const json& one) { return parse_nq(example({one}).dump(), "f:1").annotations.at(0); }

TEST(Nq, AnswersHaveATypeAndASpan) {
  EXPECT_EQ(parsed(annotation(span_of(0, 5), {span_of(2, 3)}, "NONE")).type, AnswerType::short_answer);
  EXPECT_EQ(parsed(annotation(span_of(0, 5), {span_of(2, 3)}, "NONE")).span, (NqSpan{2, 3}));
  EXPECT_EQ(parsed(annotation(span_of(0, 5), {span_of(3, 4), span_of(1, 2)}, "NONE")).span, (NqSpan{1, 4}));
  EXPECT_EQ(parsed(annotation(span_of(0, 5), {}, "NONE")).type, AnswerType::long_answer);
  EXPECT_EQ(parsed(annotation(span_of(0, 5), {}, "NONE")).span, (NqSpan{0, 5}));
  EXPECT_EQ(parsed(annotation(span_of(0, 5), {}, "YES")).type, AnswerType::yes);
  EXPECT_EQ(parsed(annotation(span_of(0, 5), {}, "NO")).type, AnswerType::no);
  EXPECT_EQ(parsed(annotation(span_of(-1, -1), {}, "NONE")).type, AnswerType::unknown);
  EXPECT_EQ(parse_nq(example({}).dump(), "f:1").id, "5655493461695504401");
}

TEST(Nq, BadLinesAreNamed) {
  const auto error = [](const json& line) { return error_message([&] { parse_nq(line.dump(), "f:7"); }); };
  EXPECT_THAT(error_message([] { parse_nq("{\"a\": ", "f:7"); }), HasSubstr("f:7: malformed JSON: "));
  EXPECT_THAT(error(json::array()), HasSubstr("f:7: top level: an object is needed"));
  for (const char* key : {"example_id", "question_text", "document_text", "annotations"}) {
    json line = example({});
    line.erase(key);
    const std::string named = line.contains("example_id") ? "example 5655493461695504401: " : "";
    EXPECT_EQ(error(line), "f:7: " + named + "top level: missing \"" + key + "\"");
  }
  EXPECT_THAT(
      error(example({annotation(span_of(0, 7), {}, "NONE")})),
      HasSubstr("f:7: example 5655493461695504401: annotations[0].long_answer: tokens 0 to 7 are not in the "
                "document, which has 6"));
  EXPECT_THAT(error(example({annotation(span_of(0, 5), {span_of(3, 3)}, "NONE")})),
              HasSubstr("annotations[0].short_answers[0]: tokens 3 to 3"));
  EXPECT_THAT(error(example({annotation(span_of(0, 5), {}, "MAYBE")})),
              HasSubstr("yes_no_answer: NONE, YES or NO is needed, found MAYBE"));
  json full = example({});
  full.erase("document_text");
  full["document_tokens"] = json::array();
  EXPECT_THAT(error(full), HasSubstr("the simplified one"));
}

class Corpus : public testing::Test {
 protected:
  Corpus() {
    tokenizer_.emplace(WordPieceTokenizer::from_file(scratch_.write(
        "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\ntwo\nthree\n##s\nfour\n<\n>\np\n/\n")));
  }
  NqCorpus open(const std::string& text) const {
    return NqCorpus::open(scratch_.write("nq.jsonl", text), *tokenizer_, 8, TokenCache::none());
  }
  std::string error(const std::string& text) const {
    return error_message([&] { open(text); });
  }
  ScratchFolder scratch_;
  std::optional<WordPieceTokenizer> tokenizer_;
};

TEST_F(Corpus, CountsInPiecesWithoutTags) {
  const std::string line =
      example({annotation(span_of(0, 5), {span_of(3, 4)}, "NONE"), annotation(span_of(0, 5), {}, "NONE"),
               annotation(span_of(0, 1), {}, "NONE")})
          .dump();
  const NqCorpus corpus = open(line + "\n");
  ASSERT_EQ(corpus.size(), 1U);
  const NqTokens tokens = corpus[0];
  EXPECT_EQ(tokens.id, "5655493461695504401");
  EXPECT_THAT(tokens.question, ElementsAre(5, 7, 8));
  EXPECT_THAT(tokens.question_words, ElementsAre(0, 1, 1));
  EXPECT_THAT(tokens.pieces, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(tokens.word_begin, ElementsAre(0, 0, 1, 2, 4, 4, 5));
  ASSERT_EQ(tokens.targets.size(), 3U);
  EXPECT_EQ(tokens.targets[0].begin, 2);
  EXPECT_EQ(tokens.targets[0].end, 4);
  EXPECT_EQ(tokens.targets[1].begin, 0);
  EXPECT_EQ(tokens.targets[1].end, 4);
  EXPECT_EQ(tokens.targets[1].answer_type(), AnswerType::long_answer);
  EXPECT_EQ(tokens.targets[2].answer_type(), AnswerType::unknown) << "a tag alone has no text";
  EXPECT_EQ(tokens.training_target().begin, 2);
  for (const auto& [piece, word] : {std::pair(0, 1), {1, 2}, {2, 3}, {3, 3}, {4, 5}})
    EXPECT_EQ(tokens.word_of(piece), word);
}

TEST_F(Corpus, KeepsTheOrderOfTheFileOnAllCores) {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    json line = example({annotation(span_of(0, 5), {span_of(1, 2)}, "NONE")});
    line["example_id"] = i;
    text += line.dump() + (i % 7 == 0 ? "\r\n\n" : "\n");
  }
  for (const std::string& file : {text, gzip_text(text)}) {
    const NqCorpus corpus = open(file);
    ASSERT_EQ(corpus.size(), 1000U);
    for (std::size_t i = 0; i < corpus.size(); ++i) ASSERT_EQ(corpus[i].id, std::to_string(i));
  }
}

TEST_F(Corpus, BadFilesAreNamedByTheFirstBadLine) {
  const std::string good = example({}).dump() + "\n";
  const std::string bad = good + "\n" + "{\"a\"\n" + "[]\n" + good;
  EXPECT_THAT(error(bad),
              AllOf(HasSubstr("nq.jsonl: 3 bad items:\n  "), HasSubstr("nq.jsonl:3: malformed JSON"),
                    HasSubstr("nq.jsonl:4: top level: an object is needed"),
                    HasSubstr("nq.jsonl:5: example 5655493461695504401: example_id occurs before"),
                    HasSubstr("--bad-items skip")));
  EXPECT_THAT(error("<html>\n</html>\n"), HasSubstr("nq.jsonl: this is a page of the web"));
  EXPECT_THAT(error("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(error("\n \n"), HasSubstr("there is no example in it"));
  const std::string packed = gzip_text(good + good);
  EXPECT_THAT(error(packed.substr(0, packed.size() - 6)), HasSubstr("ends too early"));
  json blank = example({});
  blank["question_text"] = "  ";
  EXPECT_THAT(error(blank.dump()),
              HasSubstr("nq.jsonl:1: example 5655493461695504401: question_text has no word"));
}

TEST_F(Corpus, BadLinesMayBeLeftOut) {
  json second = example({});
  second["example_id"] = "x";
  const std::string text = example({}).dump() + "\n[]\n\xFF\n" + second.dump() + "\n";
  const auto read = [&](const TokenCache& cache, OnBadItems on_bad) {
    return NqCorpus::open(scratch_.write("nq.jsonl", text), *tokenizer_, 8, cache, on_bad);
  };
  const TokenCache cache(scratch_.path() / "cache");
  for (int again = 0; again < 2; ++again) {  // what was left out is in the cache, too
    const NqCorpus corpus = read(cache, OnBadItems::skip);
    ASSERT_EQ(corpus.size(), 2U);
    EXPECT_EQ(corpus[1].id, "x");
    EXPECT_THAT(corpus.bad().words("F"),
                UnorderedElementsAre("F: 2 bad items left out:", HasSubstr("nq.jsonl:2: top level"),
                                     HasSubstr("nq.jsonl:3: not valid UTF-8")));
  }
  EXPECT_THAT(error_message([&] { read(cache, OnBadItems::refuse); }), HasSubstr("nq.jsonl:2: top level"));
  EXPECT_THAT(error_message([&] {
                NqCorpus::open(scratch_.write("none.jsonl", "[]\n"), *tokenizer_, 8, cache, OnBadItems::skip);
              }),
              HasSubstr("none.jsonl:1: top level"));
}

}  // namespace
}  // namespace rueda::examples
