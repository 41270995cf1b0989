// SPDX-License-Identifier: Apache-2.0
// Messages of PMI, which both a process and its process manager read.
#pragma once

#include <string_view>

namespace rueda {

// The value of `name` in "cmd=get_result rc=0 value=..."; empty where it has none. Fields of PMI-1 are
// separated by spaces, those of PMI-2 by ';'.
std::string_view pmi_field(std::string_view line, std::string_view name, char separator = ' ');

}  // namespace rueda
