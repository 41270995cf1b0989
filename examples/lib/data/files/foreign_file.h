// SPDX-License-Identifier: Apache-2.0
// Files that are not the data they were taken for.
#pragma once

#include <filesystem>
#include <string_view>

namespace rueda::examples {

// Throws std::runtime_error naming the file, what it is by its first bytes, and the remedy, where that is no
// text in UTF-8: a pointer of Git LFS, a compressed file, or text in UTF-16.
void refuse_foreign_file(const std::filesystem::path& path, std::string_view beginning);

// Where JSON is wanted, and an address gave a page instead.
inline constexpr std::string_view kWebPage =
    "this is a page of the web, not JSON: the address that it was saved from does not give the file itself";
bool is_web_page(std::string_view beginning);

}  // namespace rueda::examples
