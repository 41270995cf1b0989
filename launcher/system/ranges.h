// SPDX-License-Identifier: Apache-2.0
// Numbers in few words.
#pragma once

#include <string>
#include <vector>

namespace rueda {

// "0-3,8" of 0, 1, 2, 3, 8.
std::string in_ranges(const std::vector<int>& numbers);

}  // namespace rueda
