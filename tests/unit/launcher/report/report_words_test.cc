// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_words.h"

#include <gtest/gtest.h>

#include <limits>

namespace rueda::report {
namespace {

TEST(ReportWords, WritesNumbersForPeople) {
  EXPECT_EQ(number_words(0), "0");
  EXPECT_EQ(number_words(-0.0), "0");
  EXPECT_EQ(number_words(0.21958), "0.2196");
  EXPECT_EQ(number_words(80.9), "80.9");
  EXPECT_EQ(number_words(440.23), "440.2");
  EXPECT_EQ(number_words(23412), "23,412");
  EXPECT_EQ(number_words(-1234567), "-1,234,567");
  EXPECT_EQ(number_words(1.5e-7), "1.5e-7");
  EXPECT_EQ(number_words(2e12), "2e12");
  EXPECT_EQ(number_words(9.999e9), "1e10");
  EXPECT_EQ(number_words(-1.7e308), "-1.7e308");
  EXPECT_EQ(number_words(5e-324), "4.94e-324");
  EXPECT_EQ(number_words(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(fixed_words(1234.5, 2), "1,234.50");
  EXPECT_EQ(fixed_words(-0.001, 2), "0.00");
}

TEST(ReportWords, WritesTimesAndShares) {
  EXPECT_EQ(duration_words(8.51), "8.5 s");
  EXPECT_EQ(duration_words(99.94), "99.9 s");
  EXPECT_EQ(duration_words(99.96), "1:40 min");
  EXPECT_EQ(duration_words(3599.6), "1:00:00 h");
  EXPECT_EQ(duration_words(4000), "1:06:40 h");
  EXPECT_EQ(percent_words(0.932), "93.2\u00a0%");
}

TEST(ReportWords, NamesMeasuresAndTasks) {
  EXPECT_EQ(metric_words("exact_match"), "Exact match (%)");
  EXPECT_EQ(metric_words("long_answer_f1"), "Long answer f1");
  EXPECT_EQ(task_words("mlm"), "Masked language model");
  EXPECT_EQ(task_words("other"), "other");
  EXPECT_LT(metric_order("f1_first"), metric_order("f1"));
  EXPECT_LT(metric_order("gradient_norm"), metric_order("long_answer_f1"));
  EXPECT_TRUE(higher_is_better("f1"));
  EXPECT_FALSE(higher_is_better("pseudo_perplexity"));
  EXPECT_FALSE(higher_is_better("loss_held_out"));
}

}  // namespace
}  // namespace rueda::report
