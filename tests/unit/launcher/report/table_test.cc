// SPDX-License-Identifier: Apache-2.0
// A column without text is no column.
#include "launcher/report/table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rueda::report {
namespace {

using nlohmann::json;

TEST(Table, LeavesOutEmptyColumnsAndMarksTheBest) {
  const Table table{.titles = {"Run", "A", "B"},
                    .rows = {{{"x"}, {""}, {"1"}}, {{"y"}, {""}, {"2", true}}, {{"z"}, {""}, {""}}}};
  const json made = as_json(table);
  EXPECT_EQ(made["titles"], json::parse(R"(["Run", "B"])"));
  EXPECT_EQ(made["rows"], json::parse(R"([["x", "1"], ["y", {"text": "2", "best": true}], ["z", "–"]])"));
  EXPECT_EQ(made["runs"], false);
}

}  // namespace
}  // namespace rueda::report
