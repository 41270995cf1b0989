// SPDX-License-Identifier: Apache-2.0
// A table of texts and numbers, as HTML.
#pragma once

#include <string>
#include <vector>

namespace rueda::examples::report {

struct Cell {
  std::string text;
  bool best = false;  // of its column
};

// The first column names the row; the others are numbers, which stand to the right. A column without any text
// is left out.
struct Table {
  std::vector<std::string> titles;
  std::vector<std::vector<Cell>> rows;  // each as long as titles
};

std::string table_html(const Table& table);

}  // namespace rueda::examples::report
