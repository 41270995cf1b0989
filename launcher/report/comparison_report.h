// SPDX-License-Identifier: Apache-2.0
// The contents of a page that compares runs, grouped by task.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "launcher/report/run_record.h"

namespace rueda::report {

// {"title", "tasks": [{"title", "figures", "sections"}], "published"}. The same records give the same JSON.
nlohmann::json comparison_of(const std::vector<RunRecord>& records);

}  // namespace rueda::report
