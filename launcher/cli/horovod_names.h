// SPDX-License-Identifier: Apache-2.0
// Horovod's variables that have no effect in Rueda.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rueda {

// A line for each variable whose name `is_set` finds and that is no alias of a setting, saying why it is
// ignored.
std::vector<std::string> ignored_variables(const std::function<bool(const std::string&)>& is_set);

}  // namespace rueda
