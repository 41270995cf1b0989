// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/pmi_line.h"

#include <algorithm>
#include <cstddef>

namespace rueda {

std::string_view pmi_field(std::string_view line, std::string_view name, char separator) {
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find(separator, begin), line.size());
    const std::string_view word = line.substr(begin, end - begin);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return word.substr(name.size() + 1);
    begin = end + 1;
  }
  return "";
}

}  // namespace rueda
