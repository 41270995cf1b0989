// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/local_sgd/sync_schedule.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace rueda {
namespace {

TEST(SyncSchedule, WordsAndBack) {
  const SyncSchedule schedules[] = {SyncSchedule::every_step(),
                                    SyncSchedule::accumulate(4),
                                    SyncSchedule::local_sgd(8),
                                    SyncSchedule::diloco(16, 0.5, 0.25),
                                    SyncSchedule::adaptive(0.125, 32, 1.25),
                                    SyncSchedule::one_step_late()};
  for (const SyncSchedule& schedule : schedules)
    EXPECT_EQ(SyncSchedule::parse(schedule.to_string()), schedule) << schedule.to_string();
  EXPECT_EQ(SyncSchedule::parse("diloco:16"), SyncSchedule::diloco(16));
  EXPECT_EQ(SyncSchedule::parse("diloco:16:0.5"), SyncSchedule::diloco(16, 0.5));
  EXPECT_EQ(SyncSchedule::parse("adaptive"), SyncSchedule::adaptive());
  EXPECT_EQ(SyncSchedule::parse("adaptive:0.25"), SyncSchedule::adaptive(0.25));
  EXPECT_EQ(SyncSchedule::parse("adaptive:0.25:8"), SyncSchedule::adaptive(0.25, 8));
  EXPECT_EQ(SyncSchedule().to_string(), "every_step");
}

TEST(SyncSchedule, OtherWordsAreRefused) {
  for (const char* words : {"",
                            "sometimes",
                            "every_step:1",
                            "accumulate",
                            "accumulate:",
                            "accumulate:x",
                            "accumulate:4x",
                            "accumulate:4:5",
                            "local_sgd:1.5",
                            "diloco",
                            "diloco:1:2:0.5:4",
                            "adaptive:0.5:8:1:1",
                            "one_step_late:",
                            "accumulate:0",
                            "local_sgd:-1",
                            "local_sgd:99999999",
                            "diloco:4:0",
                            "diloco:4:inf",
                            "diloco:4:0.7:1",
                            "diloco:4:0.7:nan",
                            "adaptive:0",
                            "adaptive:nan",
                            "adaptive:0.5:0",
                            "adaptive:0.5:8:0.9",
                            "adaptive:0.5:8:inf"})
    EXPECT_THROW(SyncSchedule::parse(words), InvalidArgument) << words;
  try {
    SyncSchedule::parse("sometimes");
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "'sometimes' is no schedule of synchronisation; it must be one of every_step, "
                 "accumulate:STEPS, local_sgd:STEPS, diloco:STEPS[:OUTER_LEARNING_RATE[:OUTER_MOMENTUM]], "
                 "adaptive[:TARGET[:MOST_STEPS[:MOST_STRETCH]]], one_step_late");
  }
}

}  // namespace
}  // namespace rueda
