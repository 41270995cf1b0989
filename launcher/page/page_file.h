// SPDX-License-Identifier: Apache-2.0
// The page as one file that loads nothing: for a job that has ended, or for runs that are compared.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rueda {

// The page's files and `data` as one HTML text. Its policy lets only its own scripts run. `data` is
// {"kind": "job", "job", "update"} or {"kind": "runs", "comparison"}.
std::string page_file(const nlohmann::json& data);

// Replaces the file at once: no reader sees half a page, and a full disk leaves the old one. Throws
// std::runtime_error naming it.
void write_page(const std::filesystem::path& path, const std::string& html);

}  // namespace rueda
