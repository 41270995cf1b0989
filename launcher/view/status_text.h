// SPDX-License-Identifier: Apache-2.0
// The status of a job as a text for a terminal.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace rueda {

// Of what JobView::status() gives: the line, a table of ranks, the last events. Throws
// nlohmann::json::exception where `status` is something else.
std::string status_text(const nlohmann::json& status);
// One line for a list of jobs.
std::string status_line(int process, const nlohmann::json& status);

}  // namespace rueda
