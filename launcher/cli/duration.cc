// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/duration.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string_view>

#include "launcher/cli/options.h"

namespace rueda {

std::chrono::seconds read_time(const std::string& flag, const std::string& text) {
  constexpr std::int64_t kMost = 1'000'000;
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const int seconds = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc() || number < 1 || number > kMost || seconds == 0) {
    throw UsageError(
        fmt::format("{} is '{}'; it must be a time of at least a second: 90s, 10m, or 2h", flag, text));
  }
  return std::chrono::seconds(number * seconds);
}

}  // namespace rueda
