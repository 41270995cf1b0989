// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/flag_values.h"

#include <optional>

#include "core/base/number.h"

namespace rueda {

int whole_number(std::string_view flag, std::string_view text, int most, int least) {
  const std::optional<int> number = number_from<int>(text);
  if (!number || *number < least || *number > most)
    throw UsageError(
        fmt::format("{} is '{}'; it must be a whole number from {} to {}", flag, text, least, most));
  return *number;
}

}  // namespace rueda
