// SPDX-License-Identifier: Apache-2.0
// Files of which every rank writes one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rueda/status.h"
#include "rueda/types.h"

namespace rueda {

// The rank's own file: `%r` in `path` is its number. Without `%r`, rank 0 has `path` itself, and the others
// ".rankN" before the extension: "trace.json", "trace.rank1.json".
std::string path_of_rank(std::string_view path, Rank rank);
bool names_rank(std::string_view path);
// The file of a generation of an elastic job, which has ranks of its own: of the first `path` itself, then
// "trace.generation2.json".
std::string path_of_generation(std::string_view path, std::uint64_t generation);

// Replaces the file by `text`, in one move: a reader sees the old or the new text.
Status replace_file(const std::string& path, std::string_view text);

}  // namespace rueda
