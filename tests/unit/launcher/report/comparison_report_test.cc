// SPDX-License-Identifier: Apache-2.0
// What stands in the comparison. How it looks in a browser: tests/python.
#include "launcher/report/comparison_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace rueda::report {
namespace {

using nlohmann::json;
using testing::ElementsAre;

RunRecord run(const std::string& label, std::int64_t ranks, double samples_per_s) {
  RunRecord record;
  record.label = label;
  record.task = "squad";
  record.ranks = ranks;
  record.steps = 40;
  record.sync = "every_step";
  record.samples_per_s = samples_per_s;
  record.curve["loss"] = {{1, std::nullopt, 4.0}, {40, std::nullopt, 0.5}};
  return record;
}

std::vector<std::string> titles(const json& task) {
  std::vector<std::string> all;
  for (const json& section : task["sections"]) all.push_back(section["title"]);
  return all;
}

json section(const json& comparison, const std::string& title) {
  for (const json& each : comparison["tasks"][0]["sections"])
    if (each["title"] == title) return each;
  return nullptr;
}

TEST(ComparisonReport, HasACurvePerRunAndScalingBesideWhatWasPublished) {
  const json comparison = comparison_of({run("alone", 1, 10), run("both", 2, 18)});
  EXPECT_EQ(comparison["title"], "2 runs of 1 task");
  EXPECT_THAT(titles(comparison["tasks"][0]), ElementsAre("Runs", "Training", "Scaling"));
  const json training = section(comparison, "Training");
  ASSERT_EQ(training["charts"].size(), 1u);
  EXPECT_EQ(training["charts"][0]["lines"].size(), 2u);
  EXPECT_EQ(training["charts"][0]["lines"][1]["points"], json::parse("[[1.0, 4.0], [40.0, 0.5]]"));
  const json scaling = section(comparison, "Scaling");
  ASSERT_EQ(scaling["charts"].size(), 2u);
  const json& efficiency = scaling["charts"][1];
  ASSERT_EQ(efficiency["lines"].size(), 1u + 4 + 1);  // one series, four published, the ideal
  EXPECT_EQ(efficiency["lines"][0]["points"][1],
            json::parse(R"([2.0, 90.0, "90.0\u00a0% · 2 ranks: 18 samples/s"])"));
  EXPECT_EQ(efficiency["lines"][1]["name"], "BERT on SQuAD (Determined AI)");
  EXPECT_EQ(efficiency["lines"][5]["kind"], "ideal");
  EXPECT_EQ(comparison, comparison_of({run("alone", 1, 10), run("both", 2, 18)}));
}

TEST(ComparisonReport, ShowsTheBestRunsFirst) {
  RunRecord alone = run("alone", 1, 10), both = run("both", 2, 18), others = run("others", 2, 17);
  both.results = {{"f1", 70.0}};
  others.results = {{"f1", 80.5}};
  both.wait_ms = 4;
  others.wait_ms = 3;
  const json comparison = comparison_of({alone, both, others});
  const json& figures = comparison["tasks"][0]["figures"];
  ASSERT_EQ(figures.size(), 4u);
  EXPECT_EQ(figures[0], json::parse(R"({"name": "runs", "text": "3", "note": ""})"));
  EXPECT_EQ(figures[1], json::parse(R"({"name": "fastest, samples/s", "text": "18", "note": "both"})"));
  EXPECT_EQ(figures[2]["name"], "best F1 (%)");
  EXPECT_EQ(figures[2]["text"], "80.5");
  EXPECT_EQ(figures[2]["note"], "others");
  EXPECT_EQ(figures[3]["text"], "3");
}

TEST(ComparisonReport, MarksTheBestOfAColumn) {
  RunRecord first = run("first", 2, 10), second = run("second", 2, 10);
  first.results = {{"f1", 70.0}, {"loss_held_out", 0.5}, {"f1_first", 3.0}};
  second.results = {{"f1", 80.0}, {"loss_held_out", 0.6}, {"f1_first", 4.0}};
  const json table = section(comparison_of({first, second}), "Results")["tables"][0];
  EXPECT_EQ(table["titles"], json({"Run", "F1 before training (%)", "F1 (%)", "Held-out loss"}));
  EXPECT_EQ(table["rows"][0], json::parse(R"(["first", "3", "70", {"text": "0.5", "best": true}])"));
  EXPECT_EQ(table["rows"][1], json::parse(R"(["second", "4", {"text": "80", "best": true}, "0.6"])"));
}

TEST(ComparisonReport, LongCurvesHaveAMeanAndWhatWasRecorded) {
  RunRecord record = run("long", 1, 10);
  record.curve["loss"].clear();
  for (int step = 0; step < 2000; ++step)
    record.curve["loss"].push_back({static_cast<double>(step), step * 0.5, 3.0 + (step % 2)});
  record.curve["gradient_norm"] = record.curve["loss"];
  const json training = section(comparison_of({record}), "Training");
  ASSERT_EQ(training["charts"].size(), 2u);
  EXPECT_EQ(training["charts"][1]["title"], "Loss by time");
  const json& line = training["charts"][0]["lines"][0];
  EXPECT_LE(line["points"].size(), 202u);
  EXPECT_LE(line["faint"].size(), 602u);
  EXPECT_NEAR(line["points"][100][1], 3.5, 0.02);
  EXPECT_EQ(training["charts"][0]["note"], "Bold: mean over a twentieth of the run. Faint: as recorded.");
  EXPECT_EQ(training["more"]["charts"][0]["title"], "Gradient norm by step");
}

TEST(ComparisonReport, SaysWhichRunHasNoCurve) {
  RunRecord bare = run("bare", 1, 10);
  bare.curve.clear();
  const json training = section(comparison_of({bare}), "Training");
  EXPECT_EQ(training["notes"], json::parse(R"(["No curve in the summary of: bare."])"));
  EXPECT_TRUE(training["charts"].empty());
}

TEST(ComparisonReport, SaysHowManyPassesAStepHas) {
  RunRecord several = run("several", 2, 18);
  several.passes = 4;
  const json comparison = comparison_of({run("both", 2, 10), several});
  EXPECT_EQ(section(comparison, "Runs")["tables"][0]["rows"][1][2], "every_step, 4 passes");
  EXPECT_FALSE(section(comparison, "Synchronising less often").is_null());
}

TEST(ComparisonReport, SaysOnWhichDeviceARunComputed) {
  RunRecord there = run("there", 2, 180);
  const auto columns = [](const RunRecord& record) {
    return section(comparison_of({run("here", 2, 10), record}), "Runs")["tables"][0]["titles"].dump();
  };
  EXPECT_EQ(columns(there).find("Device"), std::string::npos) << "older summaries have none";
  there.device = "cuda";
  EXPECT_NE(columns(there).find("Device"), std::string::npos);
}

TEST(ComparisonReport, GroupsByTask) {
  RunRecord other = run("other", 2, 18);
  other.task = "distill";
  const json comparison = comparison_of({run("a", 1, 10), other, run("b", 1, 10)});
  ASSERT_EQ(comparison["tasks"].size(), 2u);
  EXPECT_EQ(comparison["tasks"][1]["title"], "Distillation");
  // One rank of one task and two of another do not scale.
  EXPECT_TRUE(section(comparison, "Scaling").is_null());
}

TEST(ComparisonReport, PartsOfAStepAreShares) {
  RunRecord record = run("split", 2, 10), older = run("older", 2, 10);
  record.data_ms = 1;
  record.compute_ms = older.compute_ms = 6;
  record.wait_ms = 3;
  const json split = section(comparison_of({record, older}), "Where a step's time goes");
  EXPECT_EQ(
      split["bars"]["rows"][0]["parts"],
      json::parse(
          R"([{"key": "data", "share": 0.1}, {"key": "compute", "share": 0.6}, {"key": "wait", "share": 0.3}])"));
  EXPECT_EQ(split["bars"]["rows"][0]["words"], "data 1 · compute 6 · wait 3 ms");
  EXPECT_NE(split["notes"].dump().find("is part of computing, in: older."), std::string::npos);
}

TEST(ComparisonReport, WhatIsNotFiniteIsLeftOut) {
  RunRecord wild = run("wild", 1, 10);
  wild.curve["loss"] = {{1, std::nullopt, 1e308}, {2, std::nullopt, -1e308}, {3, std::nullopt, HUGE_VAL}};
  const json training = section(comparison_of({wild}), "Training");
  EXPECT_EQ(training["charts"][0]["lines"][0]["points"].size(), 2u);
}

}  // namespace
}  // namespace rueda::report
