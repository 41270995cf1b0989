// SPDX-License-Identifier: Apache-2.0
// Reads a file that a user names, with errors that name file, line and column.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace rueda::report {

inline constexpr std::size_t kLargestSummary = std::size_t{32}
                                               << 20;  // bytes; JSON may take 20 times as much memory

// The whole file as JSON. Throws std::runtime_error, one line that names the file: if it cannot be read, is
// no regular file, is larger, or is no JSON ("FILE:LINE:COLUMN: malformed JSON: ...").
nlohmann::json read_summary(const std::filesystem::path& path, std::size_t largest = kLargestSummary);

}  // namespace rueda::report
