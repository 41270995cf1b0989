// SPDX-License-Identifier: Apache-2.0
// SQuAD files: code points to bytes, the JSON path of every error, the split by article.
#include "examples/lib/data/squad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json question(const std::string& id, const std::string& answer, std::int64_t start) {
  return {{"id", id}, {"question", "Who?"}, {"answers", {{{"text", answer}, {"answer_start", start}}}}};
}

json article(const std::string& title, const std::string& context, const json& questions) {
  return {{"title", title}, {"paragraphs", {{{"context", context}, {"qas", questions}}}}};
}

class Squad : public testing::Test {
 protected:
  Squad() {
    document_ = {
        {"version", "1.1"},
        {"data",
         {article("One", "Zoë and 漢字 Émile", {question("q1", "漢字", 8), question("q2", "Émile", 11)}),
          article("Two", "Ana", json::array({question("q3", "Ana", 0)}))}}};
  }
  SquadData read() const { return read_squad(scratch_.write("squad.json", document_.dump())); }
  std::string error() const {
    return error_message([&] { read(); });
  }
  std::string place(const std::string& rest) const {
    return (scratch_.path() / "squad.json").string() + ": " + rest;
  }
  json& first_question() { return document_["data"][0]["paragraphs"][0]["qas"][0]; }

  ScratchFolder scratch_;
  json document_;
};

TEST_F(Squad, ConvertsCodePointsToBytes) {
  const SquadData data = read();
  EXPECT_THAT(data.titles, ElementsAre("One", "Two"));
  ASSERT_EQ(data.paragraphs.size(), 2U);
  EXPECT_EQ(data.paragraphs[1].article, 1U);
  ASSERT_EQ(data.questions.size(), 3U);
  EXPECT_EQ(data.questions[0].answers[0].begin, 9);
  EXPECT_EQ(data.questions[1].answers[0].begin, 16);
  EXPECT_EQ(data.questions[2].paragraph, 1U);
  for (const Question& question : data.questions)
    EXPECT_EQ(data.paragraphs[question.paragraph].context.substr(
                  static_cast<std::size_t>(question.answers[0].begin), question.answers[0].text.size()),
              question.answers[0].text);
}

TEST_F(Squad, NamesThePathOfWrongStructure) {
  first_question()["answers"][0].erase("answer_start");
  EXPECT_EQ(error(), place("data[0].paragraphs[0].qas[0].answers[0]: missing \"answer_start\""));
  first_question()["answers"][0]["answer_start"] = -1;
  EXPECT_EQ(error(), place("data[0].paragraphs[0].qas[0].answers[0].answer_start: a non-negative integer is "
                           "needed, found -1"));
  first_question()["answers"] = json::array();
  EXPECT_THAT(error(), HasSubstr(place("data[0].paragraphs[0].qas[0].answers: question q1 has no answer")));
  first_question()["answers"] = "x";
  EXPECT_EQ(error(), place("data[0].paragraphs[0].qas[0].answers: an array is needed, found string"));
  first_question()["id"] = 5;
  EXPECT_EQ(error(), place("data[0].paragraphs[0].qas[0].id: a string is needed, found number"));
  document_["data"][1] = json::array();
  document_["data"][0]["paragraphs"] = json::array();
  EXPECT_EQ(error(), place("data[1]: an object is needed, found array"));
  document_["data"].erase(1);
  EXPECT_EQ(error(), place("data: there is no question in it"));
  document_ = json::array();
  EXPECT_EQ(error(), place("top level: an object is needed, found array"));
  document_ = json::object();
  EXPECT_EQ(error(), place("top level: missing \"data\""));
}

TEST_F(Squad, AnAnswerMustStandAtItsPosition) {
  const std::string path = "data[0].paragraphs[0].qas[0].answers[0]";
  first_question()["answers"][0]["answer_start"] = 9;
  EXPECT_EQ(error(),
            place(path + ".answer_start: question q1: \"漢字\" is expected at character 9, found \"字 É\""));
  first_question()["answers"][0]["answer_start"] = 16;
  EXPECT_EQ(
      error(),
      place(path + ".answer_start: question q1: \"漢字\" is expected at character 16, the context has 16"));
  first_question()["answers"][0]["text"] = "";
  EXPECT_EQ(error(), place(path + ": question q1 has an empty answer"));
}

TEST_F(Squad, HoldsOutTheLastArticles) {
  const auto [training, held_out] = split_by_article(read(), 1);
  EXPECT_THAT(training.titles, ElementsAre("One"));
  EXPECT_EQ(training.questions.size(), 2U);
  EXPECT_THAT(held_out.titles, ElementsAre("Two"));
  ASSERT_EQ(held_out.questions.size(), 1U);
  EXPECT_EQ(held_out.questions[0].id, "q3");
  EXPECT_EQ(held_out.questions[0].paragraph, 0U);
  EXPECT_EQ(held_out.paragraphs[0].article, 0U);
  EXPECT_EQ(held_out.paragraphs[0].context, "Ana");
}

TEST_F(Squad, SomethingMustBeLeftForTraining) {
  const SquadData data = read();
  EXPECT_TRUE(split_by_article(data, 0).second.questions.empty());
  EXPECT_EQ(error_message([&] { split_by_article(data, 2); }),
            "cannot hold out 2 of 2 articles: at least one must be left for training");
}

}  // namespace
}  // namespace rueda::examples
