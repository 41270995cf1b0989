// SPDX-License-Identifier: Apache-2.0
// Which runs are compared with which, and by what.
#include "launcher/report/comparisons.h"

#include <gtest/gtest.h>

namespace rueda::report {
namespace {

RunRecord run(std::int64_t ranks, const std::string& sync, double samples_per_s, double f1 = 0) {
  RunRecord record;
  record.task = "squad";
  record.ranks = ranks;
  record.sync = sync;
  record.samples_per_s = samples_per_s;
  if (f1 > 0) record.results = {{"f1", f1}};
  return record;
}

Runs pointers(const std::vector<RunRecord>& records) {
  Runs runs;
  for (const RunRecord& record : records) runs.push_back(&record);
  return runs;
}

TEST(Scaling, IsAgainstTheRunAloneWithMeansOverRepeats) {
  const std::vector<RunRecord> records = {run(2, "every_step", 18), run(1, "every_step", 10),
                                          run(2, "every_step", 14), run(4, "every_step", 30)};
  const std::vector<ScalingSeries> all = scaling_of(pointers(records));
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].points.size(), 3u);
  EXPECT_EQ(all[0].points[1].runs, 2u);
  EXPECT_DOUBLE_EQ(all[0].points[1].time, 10.0 / 16);
  EXPECT_DOUBLE_EQ(all[0].points[1].efficiency, 0.8);
  EXPECT_DOUBLE_EQ(all[0].points[2].efficiency, 0.75);
}

TEST(Scaling, SchedulesAndNetworksAreSeries) {
  std::vector<RunRecord> records = {run(1, "every_step", 10), run(2, "every_step", 18),
                                    run(2, "every_step", 8), run(2, "accumulate:10", 15)};
  records[2].hosts = records[3].hosts = 2;
  const std::vector<ScalingSeries> all = scaling_of(pointers(records));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "every_step, one host");
  EXPECT_EQ(all[1].name, "every_step, between hosts");
  EXPECT_DOUBLE_EQ(all[1].points[1].efficiency, 0.4);
  // No run alone has this schedule: another does.
  EXPECT_EQ(all[2].points[0].other_sync, "every_step");
  EXPECT_EQ(all[0].points[0].other_sync, "");
  EXPECT_DOUBLE_EQ(all[2].points[1].efficiency, 0.75);
}

TEST(Scaling, NeedsTwoNumbersOfRanks) {
  EXPECT_TRUE(scaling_of(pointers({run(2, "every_step", 18), run(2, "every_step", 17)})).empty());
  EXPECT_TRUE(scaling_of(pointers({run(1, "every_step", 10), run(2, "every_step", 0)})).empty());
  // Without a run alone the fewest ranks are the first.
  const std::vector<RunRecord> records = {run(4, "every_step", 30), run(2, "every_step", 20)};
  const std::vector<ScalingSeries> all = scaling_of(pointers(records));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_DOUBLE_EQ(all[0].points[1].devices, 2);
  EXPECT_DOUBLE_EQ(all[0].points[1].efficiency, 0.75);
}

TEST(Sync, KnowsHowOftenASchedulesReduces) {
  EXPECT_EQ(batches_per_sync(run(2, "every_step", 1)), 1);
  EXPECT_EQ(batches_per_sync(run(2, "accumulate:10", 1)), 10);
  EXPECT_EQ(batches_per_sync(run(2, "diloco:50:0.7:0.9", 1)), 50);
  RunRecord passes = run(2, "local_sgd:4", 1);
  passes.passes = 3;
  EXPECT_EQ(batches_per_sync(passes), 12);
  for (const char* none : {"adaptive:0.1:2:3", "one_step_late", "never", "meet", "", "accumulate",
                           "accumulate:x", "accumulate:0", "accumulate:-3"})
    EXPECT_FALSE(batches_per_sync(run(2, none, 1)).has_value()) << none;
}

TEST(Sync, EveryStepIsTheFirstPointOfEachKind) {
  const std::vector<RunRecord> records = {
      run(2, "local_sgd:10", 30, 80),  run(2, "every_step", 15, 81), run(2, "accumulate:50", 40, 70),
      run(2, "accumulate:10", 30, 79), run(1, "every_step", 10, 82), run(2, "adaptive:0.1:2:3", 20, 80)};
  const std::vector<SyncSeries> all = sync_of(pointers(records));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "local_sgd, 2 ranks");
  ASSERT_EQ(all[0].points.size(), 2u);
  EXPECT_EQ(all[0].points[0].quality, 81);
  EXPECT_EQ(all[0].points[1].time, 0.5);
  EXPECT_EQ(all[1].name, "accumulate, 2 ranks");
  ASSERT_EQ(all[1].points.size(), 3u);
  EXPECT_EQ(all[1].points[2].batches, 50);
  EXPECT_EQ(all[1].points[2].time, 15.0 / 40);
}

TEST(Sync, OptimizersAndSetupsAreNotMixed) {
  std::vector<RunRecord> records = {run(2, "every_step", 10, 81), run(2, "accumulate:10", 20, 79),
                                    run(2, "accumulate:100", 20, 52), run(4, "every_step", 30, 80)};
  records[0].optimizer = records[1].optimizer = "adamw";
  records[2].optimizer = "radam";
  const std::vector<SyncSeries> all = sync_of(pointers(records));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "accumulate, 2 ranks, adamw");
  EXPECT_EQ(all[0].points.size(), 2u);
}

TEST(Quality, IsWhatTwoRunsHave) {
  std::vector<RunRecord> records = {run(2, "every_step", 10, 80), run(2, "accumulate:2", 10)};
  records[0].results.emplace_back("loss_last", 1.0);
  records[1].results.emplace_back("loss_last", 2.0);
  EXPECT_EQ(quality_key(pointers(records)), "loss_last");
  records[1].results.emplace_back("f1", 70);
  EXPECT_EQ(quality_key(pointers(records)), "f1");
  EXPECT_EQ(quality_key({}), "");
}

}  // namespace
}  // namespace rueda::report
