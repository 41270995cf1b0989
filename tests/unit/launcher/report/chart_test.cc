// SPDX-License-Identifier: Apache-2.0
// Charts hold what can be drawn.
#include "launcher/report/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace rueda::report {
namespace {

using nlohmann::json;

TEST(Chart, LeavesOutWhatALogarithmicAxisCannotHold) {
  Chart chart{.title = "t", .x = {"x", Scale::log2}, .y = {"y"}};
  chart.lines = {
      {.name = "a", .points = {{0, 1, {}}, {1, 2, {}}, {-1, 3, {}}, {2, HUGE_VAL, {}}, {4, -1, "w"}}},
      {.name = "none", .points = {{0, 1, {}}}}};
  const json made = as_json(chart);
  ASSERT_EQ(made["lines"].size(), 1u);
  EXPECT_EQ(made["lines"][0]["points"], json::parse(R"([[1.0, 2.0], [4.0, -1.0, "w"]])"));
  chart.y.scale = Scale::log10;
  EXPECT_EQ(as_json(chart)["lines"][0]["points"], json::parse("[[1.0, 2.0]]"));
  EXPECT_EQ(as_json(chart)["x"], json::parse(R"({"title": "x", "scale": "log2"})"));
}

TEST(Chart, IsNullWithoutAPoint) {
  EXPECT_TRUE(as_json(Chart{}).is_null());
  EXPECT_TRUE(as_json(Chart{.lines = {{.name = "empty"}}}).is_null());
}

TEST(Chart, NumbersAreShort) {
  Chart chart;
  chart.lines = {{.name = "a", .points = {{1.0 / 3, 1e10 / 7, {}}}}};
  EXPECT_EQ(as_json(chart)["lines"][0]["points"].dump(), "[[0.3333333,1428571000.0]]");
}

}  // namespace
}  // namespace rueda::report
