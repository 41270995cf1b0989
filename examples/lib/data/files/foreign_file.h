// SPDX-License-Identifier: Apache-2.0
// Files that are not the data they were taken for.
#pragma once

#include <filesystem>
#include <string_view>

namespace rueda::examples {

// Throws std::runtime_error if the file is not text in UTF-8: a pointer of Git LFS, a compressed file, or
// text in UTF-16. The error names the file, its kind by its first bytes, and the remedy.
void refuse_foreign_file(const std::filesystem::path& path, std::string_view beginning);

// The error text for an address that gave a page instead of JSON.
inline constexpr std::string_view kWebPage =
    "this is a page of the web, not JSON: the address that it was saved from does not give the file itself";
bool is_web_page(std::string_view beginning);

}  // namespace rueda::examples
