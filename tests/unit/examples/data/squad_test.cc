// SPDX-License-Identifier: Apache-2.0
// SQuAD files: code points to bytes, the JSON path of every error, the split by article.
#include "examples/lib/data/squad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

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
  SquadData read(OnBadItems on_bad = OnBadItems::refuse) const {
    return read_squad(scratch_.write("squad.json", document_.dump()), on_bad);
  }
  std::string error() const {
    return error_message([&] { read(); });
  }
  std::string in_file(const std::string& rest) const {
    return (scratch_.path() / "squad.json").string() + ": " + rest;
  }
  // What is said of the only bad item.
  std::string fault(const std::string& rest) const {
    return in_file(rest) + "; correct it, or leave it out with --bad-items skip";
  }
  std::string of_first(const std::string& rest) const {
    return fault("question \"q1\": data[0].paragraphs[0].qas[0]" + rest);
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
  EXPECT_EQ(error(), of_first(".answers[0]: missing \"answer_start\""));
  first_question()["answers"][0]["answer_start"] = -2;
  EXPECT_EQ(error(), of_first(".answers[0].answer_start: a non-negative integer is needed, found -2"));
  first_question()["answers"] = "x";
  EXPECT_EQ(error(), of_first(".answers: an array is needed, found string"));
  first_question()["id"] = 5;
  EXPECT_EQ(error(), fault("data[0].paragraphs[0].qas[0].id: a string is needed, found number"));
  document_["data"][0]["paragraphs"] = "x";
  EXPECT_EQ(error(), fault("data[0].paragraphs: an array is needed, found string"));
  document_["data"][1] = json::array();
  document_["data"][0]["paragraphs"] = json::array();
  EXPECT_EQ(error(), in_file("its only item is bad, and nothing is left:\n  ") +
                         in_file("data[1]: an object is needed, found array"));
  document_["data"].erase(1);
  EXPECT_EQ(error(), in_file("data: there is no question in it"));
  document_ = json::array();
  EXPECT_EQ(error(), in_file("top level: an object is needed, found array"));
  document_ = json::object();
  EXPECT_EQ(error(), in_file("top level: missing \"data\""));
}

TEST_F(Squad, AnAnswerMustStandAtItsPosition) {
  json& start = first_question()["answers"][0]["answer_start"];
  start = 10;
  EXPECT_EQ(error(),
            of_first(".answers[0].answer_start: \"漢字\" is expected at character 10, found \" Émil\""));
  start = 16;
  EXPECT_EQ(error(),
            of_first(".answers[0].answer_start: \"漢字\" is expected at character 16, the context has 16"));
  start = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(error(), HasSubstr("the context has 16"));
  for (const int off : {7, 9}) {
    start = off;
    EXPECT_EQ(error(), of_first(".answers[0].answer_start: answer_start is off by one: \"漢字\" stands at "
                                "character 8, not at " +
                                std::to_string(off)));
  }
  start = -1;
  EXPECT_EQ(error(), of_first(".answers[0].answer_start: answer_start is -1: a question that is unanswerable "
                              "has no answers, and is_impossible true"));
  start = 8;
  first_question()["answers"][0]["text"] = "";
  EXPECT_EQ(error(), of_first(".answers[0]: an answer without text"));
  first_question()["answers"][0]["text"] = std::string(59, 'x') + "漢\n";
  EXPECT_THAT(error(), HasSubstr("\"" + std::string(59, 'x') + "\"... is expected"));
}

TEST_F(Squad, QuestionsOfTheSecondVersionMayLackAnswers) {
  EXPECT_FALSE(read().may_lack_answers);
  first_question()["answers"] = json::array();
  EXPECT_EQ(error(),
            of_first(": there is no answer; only a question whose is_impossible is true may lack one"));
  first_question()["is_impossible"] = true;
  first_question()["plausible_answers"] = {{{"text", "Zoë"}, {"answer_start", 0}}};
  const SquadData data = read();
  EXPECT_TRUE(data.may_lack_answers);
  EXPECT_TRUE(data.questions[0].answers.empty());
  EXPECT_TRUE(split_by_article(data, 1).second.may_lack_answers);
  first_question()["is_impossible"] = false;
  EXPECT_EQ(error(), of_first(": is_impossible is false, and there is no answer"));
  first_question().erase("is_impossible");
  document_["version"] = "v2.0";
  EXPECT_TRUE(read().questions[0].answers.empty());
  first_question()["is_impossible"] = true;
  first_question()["answers"] = {{{"text", "Zoë"}, {"answer_start", 0}}};
  EXPECT_EQ(error(), of_first(": is_impossible is true, and there are answers"));
  first_question()["is_impossible"] = "yes";
  EXPECT_EQ(error(), of_first(".is_impossible: true or false is needed, found \"yes\""));
}

TEST_F(Squad, BadItemsAreLeftOutAndCounted) {
  document_["data"].push_back({{"title", "Three"}});
  document_["data"].push_back(article("Four", "Bo", json::array({question("q4", "Bo", 0)})));
  for (int i = 0; i < 10; ++i)
    document_["data"][3]["paragraphs"][0]["qas"].push_back(question("q4", "Bo", 0));
  first_question()["answers"][0]["answer_start"] = 9;
  const SquadData data = read(OnBadItems::skip);
  std::vector<std::string> ids;
  for (const Question& one : data.questions) ids.push_back(one.id);
  EXPECT_THAT(ids, ElementsAre("q2", "q3", "q4"));
  EXPECT_THAT(data.titles, ElementsAre("One", "Two", "Four"));
  EXPECT_EQ(data.bad.count(), 12U);
  const std::vector<std::string> words = data.bad.words("F");
  ASSERT_EQ(words.size(), 11U);
  EXPECT_EQ(words[0], "F: 12 bad items left out; the first 10:");
  EXPECT_THAT(words[1], HasSubstr("question \"q1\": data[0].paragraphs[0].qas[0].answers[0]"));
  EXPECT_EQ(words[2], "  " + in_file("data[2]: missing \"paragraphs\""));
  EXPECT_EQ(words[3],
            "  " + in_file("question \"q4\": data[3].paragraphs[0].qas[1].id: the id occurs before"));
  const std::string all = error();
  EXPECT_THAT(all, HasSubstr(in_file("12 bad items; the first 10:\n  ")));
  EXPECT_THAT(all,
              HasSubstr("qas[8].id: the id occurs before\ncorrect them, or leave them out with --bad-items "
                        "skip"));
  EXPECT_TRUE(BadItems().words("F").empty());
}

TEST_F(Squad, SomethingMustBeLeft) {
  for (json& article : document_["data"]) article.erase("paragraphs");
  for (const OnBadItems on_bad : {OnBadItems::skip, OnBadItems::refuse}) {
    EXPECT_EQ(error_message([&] { read(on_bad); }), in_file("all 2 items are bad, and nothing is left:\n  ") +
                                                        in_file("data[0]: missing \"paragraphs\"") + "\n  " +
                                                        in_file("data[1]: missing \"paragraphs\""));
  }
}

TEST_F(Squad, AnArticleNeedsNoTitle) {
  document_["data"][0].erase("title");
  document_["data"][1]["title"] = nullptr;
  const SquadData data = read();
  EXPECT_THAT(data.titles, ElementsAre("", ""));
  EXPECT_EQ(data.questions.size(), 3U);
  document_["data"][1]["title"] = 7;
  EXPECT_EQ(error(), fault("data[1].title: a string is needed, found number"));
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
