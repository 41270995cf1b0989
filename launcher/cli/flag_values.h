// SPDX-License-Identifier: Apache-2.0
// The values of flags. All throw UsageError, which names the flag, the value and the legal ones.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "launcher/cli/usage_error.h"

namespace rueda {

int whole_number(std::string_view flag, std::string_view text, int most, int least = 1);

// One of the words of a table, by its index there.
template <class Choice, std::size_t Count>
Choice choice_of(std::string_view flag, const std::string& text,
                 const std::array<const char*, Count>& words) {
  const auto found = std::ranges::find(words, text);
  if (found == words.end())
    throw UsageError(fmt::format("--{} is '{}'; it must be one of {}", flag, text, fmt::join(words, ", ")));
  return static_cast<Choice>(found - words.begin());
}

}  // namespace rueda
