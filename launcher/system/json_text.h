// SPDX-License-Identifier: Apache-2.0
// JSON as text, whatever bytes its strings have.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace rueda {

// Replaces bytes that are not UTF-8. `indent` is of lines; -1 puts all into one line.
template <class Json = nlohmann::json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rueda
