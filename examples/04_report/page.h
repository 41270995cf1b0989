// SPDX-License-Identifier: Apache-2.0
// The page: runs grouped by task, everything inside one file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/04_report/run_record.h"

namespace rueda::examples::report {

// The same records give the same bytes.
std::string page_html(const std::vector<RunRecord>& records);

// Replaces the file at once, so that no reader sees half a page and a full disk leaves the old one. Throws
// std::runtime_error naming it.
void write_page(const std::filesystem::path& path, const std::string& html);

}  // namespace rueda::examples::report
