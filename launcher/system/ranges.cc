// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/ranges.h"

#include <fmt/format.h>

namespace rueda {

std::string in_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", begin == 0 ? "" : ",", numbers[begin]);
    if (end - begin > 1) text += fmt::format("-{}", numbers[end - 1]);
  }
  return text;
}

}  // namespace rueda
