// SPDX-License-Identifier: Apache-2.0
#include "launcher/about.h"

#include <fmt/format.h>

#include <cstdlib>
#include <span>

#include "core/base/config.h"

namespace rueda {
namespace {

constexpr bool kTorch = RUEDA_BUILT_TORCH != 0;

std::string box(bool have) { return have ? "[X]" : "[ ]"; }

}  // namespace

std::string version_text() { return "ruedarun " RUEDA_BUILT_VERSION "\n"; }

std::string build_text() {
  return fmt::format(
      "Rueda {}\n\n"
      "Frameworks:\n    {} LibTorch\n\n"
      "Transports and backends:\n    [X] local\n    [X] MPI, started by {}\n",
      RUEDA_BUILT_VERSION, box(kTorch), RUEDA_BUILT_MPIEXEC);
}

std::string config_text() {
  ConfigWithOrigins read = read_config([](const std::string& name) { return std::getenv(name.c_str()); });
  std::string text = fmt::format("{:<26} {:>12}  {:<26} {}\n", "setting", "value", "set by", "meaning");
  std::span<const Setting> table = settings();
  for (std::size_t row = 0; row < table.size(); ++row)
    text +=
        fmt::format("RUEDA_{:<20} {:>12}  {:<26} {} ({})\n", table[row].name, table[row].show(read.config),
                    read.origins[row], table[row].meaning, table[row].legal);
  return text;
}

}  // namespace rueda
