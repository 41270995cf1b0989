// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rueda::report {

using nlohmann::json;

json as_json(const Table& table) {
  std::vector<std::size_t> columns;
  for (std::size_t column = 0; column < table.titles.size(); ++column) {
    if (std::ranges::any_of(table.rows, [&](const auto& row) { return !row[column].text.empty(); }))
      columns.push_back(column);
  }
  json titles = json::array(), rows = json::array();
  for (const std::size_t column : columns) titles.push_back(table.titles[column]);
  for (const std::vector<Cell>& row : table.rows) {
    json cells = json::array();
    for (const std::size_t column : columns) {
      const Cell& cell = row[column];
      const std::string text = cell.text.empty() ? "–" : cell.text;
      cells.push_back(cell.best ? json{{"text", text}, {"best", true}} : json(text));
    }
    rows.push_back(std::move(cells));
  }
  return {{"titles", std::move(titles)}, {"rows", std::move(rows)}, {"runs", table.lists_runs}};
}

}  // namespace rueda::report
