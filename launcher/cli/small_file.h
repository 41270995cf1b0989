// SPDX-License-Identifier: Apache-2.0
// Files that the user names on the command line.
#pragma once

#include <string>

namespace rueda {

// All of it. Throws UsageError, naming the flag and the file, when it cannot be read or is longer than 1 MiB.
std::string read_small_file(const std::string& flag, const std::string& path);

}  // namespace rueda
