// SPDX-License-Identifier: Apache-2.0
// Text of other programs must not move a terminal's cursor.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace rueda {

// Control characters become '?', but those of `kept`.
inline std::string printable(std::string text, std::string_view kept) {
  std::ranges::replace_if(
      text,
      [kept](char each) {
        const auto letter = static_cast<unsigned char>(each);
        return (letter < 0x20 || letter == 0x7f) && kept.find(each) == std::string_view::npos;
      },
      '?');
  return text;
}

}  // namespace rueda
