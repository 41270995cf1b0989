// SPDX-License-Identifier: Apache-2.0
// Reading text and JSON files, with errors that name the file, the line and the column.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rueda::examples {

// The whole file. Throws std::runtime_error if it cannot be read or is not valid UTF-8.
std::string read_text(const std::filesystem::path& path);

// The whole file as JSON. Throws std::runtime_error "FILE:LINE:COLUMN: malformed JSON: CAUSE" besides what
// read_text throws.
nlohmann::json read_json(const std::filesystem::path& path);

// One line of JSON. Throws std::runtime_error "PLACE: malformed JSON: CAUSE".
nlohmann::json parse_json_line(std::string_view line, const std::string& place);

}  // namespace rueda::examples
