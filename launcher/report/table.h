// SPDX-License-Identifier: Apache-2.0
// A table of texts and numbers, as the page shows it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace rueda::report {

struct Cell {
  std::string text;
  bool best = false;  // of its column
};

// The first column names the row; the others are numbers, which stand to the right. A column without any text
// is left out.
struct Table {
  std::vector<std::string> titles;
  std::vector<std::vector<Cell>> rows;  // each as long as titles
  bool lists_runs = false;              // then each row has the colour of its run
};

nlohmann::json as_json(const Table& table);

}  // namespace rueda::report
