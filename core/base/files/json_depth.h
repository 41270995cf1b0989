// SPDX-License-Identifier: Apache-2.0
// A limit for the nesting of JSON from outside. Code that walks a parsed value calls itself once for each
// level, so deep nesting would overflow the stack.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <stdexcept>

namespace rueda {

// JSON from outside is nested too deeply.
class TooDeep : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Returns a callback for Json::parse. It throws TooDeep for arrays or objects that lie deeper than
// `most` levels.
template <class Json>
std::function<bool(int, typename Json::parse_event_t, Json&)> at_most_nested(int most) {
  return [most](int depth, typename Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= most)
      throw TooDeep(fmt::format("its JSON is nested more than {} levels deep", most));
    return true;
  };
}

}  // namespace rueda
