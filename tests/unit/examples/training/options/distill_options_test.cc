// SPDX-License-Identifier: Apache-2.0
// The flags of distill: defaults, what is read, what does not go together.
#include "examples/lib/training/options/distill_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::Contains;
using testing::HasSubstr;

DistillOptions distill_options_of(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "distill");
  return *parse_distill_options(static_cast<int>(arguments.size()), arguments.data());
}

std::string distill_error_of(const std::vector<const char*>& arguments) {
  return error_message([&] { distill_options_of(arguments); });
}

TEST(DistillOptions, DefaultsOfTheSampleAndOfATeacher) {
  const DistillOptions sample = distill_options_of({});
  EXPECT_FALSE(sample.teacher);
  EXPECT_EQ(sample.data.filename(), "text_sample.txt");
  EXPECT_EQ(sample.output, "runs/distill");
  EXPECT_EQ(sample.steps, 150);
  const DistillOptions given = distill_options_of({"--teacher", "DIR"});
  EXPECT_EQ(*given.teacher, "DIR");
  EXPECT_EQ(given.steps, 400);
  EXPECT_EQ(given.losses.alpha_ce, 5);
  EXPECT_EQ(given.losses.compared, ComparedTokens::all);
}

TEST(DistillOptions, WhatIsGivenIsRead) {
  const DistillOptions options =
      distill_options_of({"--alpha-mlm", "0", "--alpha-cos", "0.5", "--temperature", "4", "--compare",
                          "masked", "--student", "random", "--steps", "7", "--dummy", "yes"});
  EXPECT_EQ(options.losses.alpha_mlm, 0);
  EXPECT_EQ(options.losses.temperature, 4);
  EXPECT_EQ(options.student, StudentStart::random);
  EXPECT_EQ(options.steps, 7);
  EXPECT_TRUE(options.source.dummy);
  EXPECT_THAT(distill_settings(options), Contains("--compare masked"));
  EXPECT_EQ(distill_options_of({"--student", "DIR"}).student_folder, "DIR");
}

TEST(DistillOptions, ErrorsNameFlagAndValue) {
  EXPECT_THAT(distill_error_of({"--temperature", "0"}), HasSubstr("--temperature is 0"));
  EXPECT_THAT(distill_error_of({"--alpha-ce", "-1"}), HasSubstr("--alpha-ce is -1"));
  EXPECT_THAT(distill_error_of({"--compare", "none"}), HasSubstr("all or masked"));
  EXPECT_THAT(distill_error_of({"--student", ""}), HasSubstr("--student needs a value"));
  EXPECT_THAT(distill_error_of({"--dummy", "yes", "--data", "FILE"}), HasSubstr("--data is given"));
  EXPECT_THAT(distill_error_of({"--vocabulary", "FILE", "--teacher", "DIR"}),
              HasSubstr("--teacher names a checkpoint with its own"));
  EXPECT_THAT(distill_error_of({"--elastic", "yes"}), HasSubstr("--elastic yes needs --teacher"));
  EXPECT_TRUE(distill_options_of({"--elastic", "yes", "--teacher", "DIR"}).elastic);
  EXPECT_THAT(distill_error_of({"--stride", "3"}), HasSubstr("see distill --help"));
}

}  // namespace
}  // namespace rueda::examples
