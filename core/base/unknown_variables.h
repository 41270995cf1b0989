// SPDX-License-Identifier: Apache-2.0
// Finds variables that were probably meant to be settings.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rueda {

// The setting's variable that `variable` ("RUEDA_...") is a slip of the pen of: one or two letters wrong,
// missing or too many. Nothing for a setting itself, and for names that are like none.
std::optional<std::string> meant_setting(std::string_view variable);

// "RUEDA_SMH is no setting ...", for each of the environment's entries ("NAME=value") that are misspelled.
std::vector<std::string> misspelled_settings(std::span<const char* const> environment);
std::vector<std::string> misspelled_settings();  // of this process

}  // namespace rueda
