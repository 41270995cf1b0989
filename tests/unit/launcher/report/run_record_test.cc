// SPDX-License-Identifier: Apache-2.0
// Summaries of every age are read; what is wrong in one is named.
#include "launcher/report/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/scratch_folder.h"

namespace rueda::report {
namespace {

using testing::ElementsAre;
using testing::Pair;

RunRecord record(const char* json) { return record_of(nlohmann::json::parse(json), "runs/a/summary.json"); }

std::string error_of(const char* json) {
  return error_message([&] { record(json); });
}

TEST(RunRecord, ReadsASummaryWithoutCurve) {
  const RunRecord run = record(
      R"({"task": "squad", "ranks": 2, "steps": 400, "sync": "every_step", "device": "cuda", "loss_first": null,
      "f1": 80.5, "step_ms": 47.1, "wait_ms": 2.5, "reduced_mb": 800.0, "parameters_hash": "0f"})");
  EXPECT_EQ(run.task, "squad");
  EXPECT_EQ(run.ranks, 2);
  EXPECT_EQ(run.hosts, 1);
  EXPECT_EQ(run.steps, 400);
  EXPECT_EQ(run.device, "cuda");
  EXPECT_EQ(run.step_ms, 47.1);
  EXPECT_FALSE(run.data_ms.has_value());
  EXPECT_FALSE(run.result("loss_first").has_value());
  EXPECT_THAT(run.results, ElementsAre(Pair("f1", 80.5)));
  EXPECT_TRUE(run.curve.empty());
}

TEST(RunRecord, ReadsCurvesInOrderOfSteps) {
  const RunRecord run = record(R"({"task": "distill", "stopped": "SIGTERM", "resumed_from": 20, "curve": [
      {"step": 20, "loss": 2, "loss_mlm": 1.5}, {"step": 10, "loss": 3, "seconds": 4}, {"step": 30, "loss": null}]})");
  EXPECT_EQ(run.stopped, "SIGTERM");
  ASSERT_EQ(run.curve.at("loss").size(), 2u);
  EXPECT_EQ(run.curve.at("loss")[0].step, 10);
  EXPECT_EQ(run.curve.at("loss")[0].seconds, 4);
  EXPECT_EQ(run.curve.at("loss")[1].value, 2);
  EXPECT_EQ(run.curve.at("loss_mlm").size(), 1u);
  EXPECT_TRUE(run.results.empty());
}

TEST(RunRecord, TimeFollowsFromTheSpeed) {
  const RunRecord run = record(R"({"task": "mlm", "samples_per_step": 8, "curve": [
      {"step": 10, "loss": 3, "samples_per_s": 40}, {"step": 30, "loss": 2, "samples_per_s": 80}]})");
  EXPECT_EQ(run.curve.at("loss")[0].seconds, 2);
  EXPECT_EQ(run.curve.at("loss")[1].seconds, 4);
}

TEST(RunRecord, AnEvaluationNeedsNoTask) {
  EXPECT_EQ(record(R"({"loss": 3.0, "perplexity": 20.1, "tokens": 12})").task, "evaluate_lm");
}

TEST(RunRecord, NamesWhatIsWrong) {
  const std::string file = "runs/a/summary.json";
  EXPECT_EQ(error_of("[1]"), file + " holds a list; give the summary.json that a trainer wrote");
  EXPECT_EQ(error_of("{}"), file + " has no 'task'; give the summary.json that a trainer wrote");
  EXPECT_EQ(error_of(R"({"task": 7})"), file + ": 'task' is 7; it must be a string");
  EXPECT_EQ(error_of(R"({"task": "squad", "ranks": 0})"),
            file + ": 'ranks' is 0; it must be a whole number of at least 1");
  EXPECT_EQ(error_of(R"({"task": "squad", "steps": 1.5})"),
            file + ": 'steps' is 1.5; it must be a whole number of at least 0");
  EXPECT_EQ(error_of(R"({"task": "squad", "wait_ms": -1})"),
            file + ": 'wait_ms' is -1; it must be a number of at least 0");
  EXPECT_EQ(error_of(R"({"task": "squad", "curve": {}})"),
            file + ": 'curve' is an object; it must be a list of points");
  EXPECT_EQ(error_of(R"({"task": "squad", "curve": [{"step": 1}, {"loss": 1}]})"),
            file + ": curve[1] has no 'step'");
  EXPECT_EQ(error_of(R"({"task": "squad", "evaluations": [3]})"),
            file + ": evaluations[0] is 3; it must be an object such as {\"step\": 1, \"loss\": 2.5}");
}

TEST(RunRecord, NumbersAndMeasuresAreBounded) {
  const std::string file = "runs/a/summary.json";
  EXPECT_EQ(error_of(R"({"task": "squad", "samples_per_s": 1e200})"),
            file + ": 'samples_per_s' is 1e+200; it must be 0, or between 1e-150 and 1e150 in size");
  EXPECT_EQ(error_of(R"({"task": "squad", "f1": -1e-200})"),
            file + ": 'f1' is -1e-200; it must be 0, or between 1e-150 and 1e150 in size");
  EXPECT_EQ(error_of(R"({"task": "squad", "curve": [{"step": 1, "loss": 5e-324}]})"),
            file + ": curve[0]: 'loss' is 5e-324; it must be 0, or between 1e-150 and 1e150 in size");
  nlohmann::json point{{"step", 1}};
  for (int i = 0; i < 101; ++i) point[std::to_string(i)] = i;
  const nlohmann::json summary{{"task", "squad"}, {"curve", {point}}};
  EXPECT_EQ(error_of(summary.dump().c_str()), file + ": 'curve' has more than 100 measures");
}

TEST(NameRecords, ManyAreNamedAtOnce) {
  std::vector<RunRecord> records(3000);
  for (std::size_t i = 0; i < records.size(); ++i)
    records[i].path = "/x/" + std::to_string(i) + "/a/b/c/d/e/f/summary.json";
  const auto began = std::chrono::steady_clock::now();
  name_records(records, {});
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  EXPECT_EQ(records[7].label, "7/a/b/c/d/e/f");
}

TEST(NameRecords, TakesAsMuchOfThePathAsTellsRunsApart) {
  std::vector<RunRecord> records(5);
  records[0].path = "/x/a/squad/summary.json";
  records[1].path = "/x/b/squad/summary.json";
  records[2].path = "/x/nq/summary.json";
  records[3].path = "/x/after.json";
  records[4].path = "/x/after.json";
  name_records(records, {});
  std::vector<std::string> labels;
  for (const RunRecord& record : records) labels.push_back(record.label);
  EXPECT_THAT(labels, ElementsAre("a/squad", "b/squad", "nq", "after (4)", "after (5)"));
  name_records(records, {"1", "2", "3", "4", "5"});
  EXPECT_EQ(records[4].label, "5");
}

}  // namespace
}  // namespace rueda::report
