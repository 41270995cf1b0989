// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/small_file.h"

#include <fmt/format.h>

#include <fstream>

#include "launcher/cli/options.h"

namespace rueda {

std::string read_small_file(const std::string& flag, const std::string& path) {
  constexpr std::size_t kLongest = 1 << 20;
  std::ifstream file(path);
  std::string text(kLongest + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) throw UsageError(fmt::format("{}: cannot read '{}'", flag, path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLongest)
    throw UsageError(fmt::format("{}: '{}' is longer than {} bytes", flag, path, kLongest));
  return text;
}

}  // namespace rueda
