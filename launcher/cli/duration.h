// SPDX-License-Identifier: Apache-2.0
// A time that a flag gives.
#pragma once

#include <chrono>
#include <string>

namespace rueda {

// "90", "90s", "10m", "2h": seconds, more than 0. Throws UsageError naming the flag.
std::chrono::seconds read_time(const std::string& flag, const std::string& text);

}  // namespace rueda
