// SPDX-License-Identifier: Apache-2.0
// Windows over a context, and where they put the answer.
#include "examples/lib/data/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr std::int32_t kCls = 2, kSep = 3;

class Features : public testing::Test {
 protected:
  Features() {
    data_.titles = {"One"};
    data_.paragraphs = {{0, "a b c d e f g"}};
    ask("a", "d e", 6);
  }
  void ask(const std::string& text, const std::string& answer, std::int32_t begin) {
    data_.questions.push_back({"q" + std::to_string(data_.questions.size()), text, 0, {{answer, begin}}});
  }
  std::vector<Feature> make(std::int32_t max_length, std::int32_t stride,
                            std::int32_t max_question_length = 64) {
    return make_features(data_, tokenizer_, max_length, stride, max_question_length);
  }

  ScratchFolder scratch_;
  WordPieceTokenizer tokenizer_ = WordPieceTokenizer::from_file(scratch_.write(
      "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\ng\n##z\n"));  // a is 5, g is 11
  SquadData data_;
};

TEST_F(Features, OneWindow) {
  const auto features = make(20, 5);
  ASSERT_EQ(features.size(), 1U);
  const Feature& feature = features[0];
  EXPECT_THAT(feature.input_ids, ElementsAre(kCls, 5, kSep, 5, 6, 7, 8, 9, 10, 11, kSep));
  EXPECT_THAT(feature.token_types, ElementsAre(0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(feature.context_begin, 3);
  EXPECT_EQ(feature.start, 6);
  EXPECT_EQ(feature.end, 7);
  ASSERT_EQ(feature.offsets.size(), 7U);
  EXPECT_THAT(feature.offsets[3], Pair(6, 7));
}

TEST_F(Features, WindowsOverlapByTheStride) {
  const auto features = make(7, 1);  // three tokens of context: abc cde efg
  ASSERT_EQ(features.size(), 3U);
  EXPECT_THAT(features[0].input_ids, ElementsAre(kCls, 5, kSep, 5, 6, 7, kSep));
  EXPECT_THAT(features[1].input_ids, ElementsAre(kCls, 5, kSep, 7, 8, 9, kSep));
  EXPECT_THAT(features[2].input_ids, ElementsAre(kCls, 5, kSep, 9, 10, 11, kSep));
  EXPECT_THAT(features[1].offsets, ElementsAre(Pair(4, 5), Pair(6, 7), Pair(8, 9)));
  EXPECT_EQ(features[0].start, 0);  // d is not in it
  EXPECT_EQ(features[1].start, 4);
  EXPECT_EQ(features[1].end, 5);
  EXPECT_EQ(features[2].start, 0);  // e alone is not the answer
  EXPECT_EQ(features[2].end, 0);
}

TEST_F(Features, TheLastWindowEndsWithTheContext) {
  const auto features = make(9, 2);  // five tokens: abcde defg
  ASSERT_EQ(features.size(), 2U);
  EXPECT_EQ(features[1].input_ids.size(), 8U);
  EXPECT_EQ(make(11, 0).size(), 1U);
  EXPECT_EQ(make(10, 0).size(), 2U);
}

TEST_F(Features, AnAnswerInsideAWordTakesItsPieces) {
  data_.paragraphs[0].context = "a bzzz c";
  data_.questions[0].answers[0] = {"zz", 3};
  const auto features = make(20, 5);
  EXPECT_EQ(features[0].start, features[0].context_begin + 2);
  EXPECT_EQ(features[0].end, features[0].context_begin + 3);
}

TEST_F(Features, AnAnswerWithoutATokenIsAtCls) {
  data_.paragraphs[0].context = "a \u200b b";
  data_.questions[0].answers[0] = {"\u200b", 2};
  EXPECT_EQ(make(20, 5)[0].start, 0);
  EXPECT_EQ(make(20, 5)[0].end, 0);
}

TEST_F(Features, EveryQuestionHasAWindow) {
  data_.paragraphs.push_back({0, ""});
  data_.questions.push_back({"empty", "b", 1, {{"x", 0}}});
  const auto features = make(20, 5);
  ASSERT_EQ(features.size(), 2U);
  EXPECT_EQ(features[1].question, 1U);
  EXPECT_THAT(features[1].input_ids, ElementsAre(kCls, 6, kSep, kSep));
}

TEST_F(Features, LongQuestionsAreCut) {
  ask("a b c d e f g", "a", 0);
  EXPECT_THAT(make(20, 5, 2)[1].input_ids, ElementsAre(kCls, 5, 6, kSep, 5, 6, 7, 8, 9, 10, 11, kSep));
}

TEST_F(Features, SettingsWithoutRoomForContextAreAnError) {
  EXPECT_THAT(error_message([&] { make(7, 3); }),
              HasSubstr("--max-length 7 leaves 3 tokens of context beside the 1 of question q0 and 3 special "
                        "ones; more than the --stride of 3 are needed: raise --max-length, or lower "
                        "--stride"));
  EXPECT_THAT(error_message([&] { make(2, 0); }), HasSubstr("leaves 0 tokens"));
  EXPECT_THROW(make(7, -1), std::invalid_argument);
  EXPECT_THROW(make(7, 1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace rueda::examples
