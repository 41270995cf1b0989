// SPDX-License-Identifier: Apache-2.0
// How much memory this process can still get.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rueda {

// The least of what the system has available and what each control group of this process leaves, in bytes;
// nothing when neither can be found out. Files are read below `root` (for tests).
std::optional<std::int64_t> free_memory(const std::string& root = "");

}  // namespace rueda
