// SPDX-License-Identifier: Apache-2.0
// Reading text and JSON files, with errors that name the file, the line and the column.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rueda::examples {

inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// The whole file. Throws std::runtime_error if it cannot be read, is not valid UTF-8, has more than
// `most_bytes`, or is a pointer of Git LFS or compressed.
std::string read_text(const std::filesystem::path& path, std::size_t most_bytes = kNoLimit);

// The whole file as JSON. Throws std::runtime_error "FILE:LINE:COLUMN: malformed JSON: CAUSE", and the errors
// of read_text.
nlohmann::json read_json(const std::filesystem::path& path, std::size_t most_bytes = kNoLimit);

// Git LFS leaves a short text in place of a large file that has not been fetched. Throws std::runtime_error
// naming the file, of which `begin` are the first bytes, and the remedy.
void refuse_lfs_pointer(const std::filesystem::path& path, std::string_view begin);

// One line of JSON. Throws std::runtime_error "SOURCE: malformed JSON: CAUSE".
nlohmann::json parse_json_line(std::string_view line, const std::string& source);

}  // namespace rueda::examples
