// SPDX-License-Identifier: Apache-2.0
#include "examples/04_report/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "examples/04_report/html_text.h"

namespace rueda::examples::report {

std::string table_html(const Table& table) {
  std::vector<std::size_t> columns;
  for (std::size_t column = 0; column < table.titles.size(); ++column) {
    if (std::ranges::any_of(table.rows, [&](const auto& row) { return !row[column].text.empty(); }))
      columns.push_back(column);
  }
  // The name of the row stays in sight when a narrow window scrolls the rest.
  std::string html = "<div class=\"table\" tabindex=\"0\"><table>\n<thead><tr>";
  for (const std::size_t column : columns)
    html += fmt::format("<th scope=\"col\">{}</th>", escaped(table.titles[column]));
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& row : table.rows) {
    html += "<tr>";
    for (const std::size_t column : columns) {
      const Cell& cell = row[column];
      const std::string text = cell.text.empty() ? "–" : escaped(cell.text);
      html += column == 0 ? fmt::format("<th scope=\"row\">{}</th>", text)
                          : fmt::format("<td{}>{}</td>", cell.best ? " class=\"best\"" : "", text);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace rueda::examples::report
