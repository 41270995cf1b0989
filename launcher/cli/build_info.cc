// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/build_info.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>

#include "core/base/config.h"
#include "ops/setup/device_report.h"

namespace rueda {
namespace {

constexpr bool kTorch = RUEDA_BUILT_TORCH != 0;
constexpr std::size_t kLongestVersion = 8192;  // MPI_MAX_LIBRARY_VERSION_STRING of MPICH

std::string box(bool have) { return have ? "[X]" : "[ ]"; }

std::string torch_line() {
  constexpr std::string_view kVersion = RUEDA_BUILT_TORCH_VERSION;
  return kTorch && !kVersion.empty() ? fmt::format("LibTorch {}", kVersion) : "LibTorch";
}

}  // namespace

std::string built_version() { return RUEDA_BUILT_VERSION; }

std::string built_torch() { return kTorch ? RUEDA_BUILT_TORCH_VERSION : ""; }

// The first line of what the library says of itself: it may be another than at build time.
std::string mpi_library_version() {
  if (std::string_view(RUEDA_BUILT_MPI).empty()) return "none: built with RUEDA_MPI=OFF";
  const std::unique_ptr<void, int (*)(void*)> library(::dlopen(RUEDA_BUILT_MPI, RTLD_NOW | RTLD_LOCAL),
                                                      ::dlclose);
  if (library == nullptr) return fmt::format("cannot be loaded: {}", ::dlerror());
  const auto ask = reinterpret_cast<int (*)(char*, int*)>(::dlsym(library.get(), "MPI_Get_library_version"));
  std::array<char, kLongestVersion> text{};
  int length = 0;
  if (ask == nullptr || ask(text.data(), &length) != 0) return "says no version";
  const std::string all(text.data());
  std::string line = all.substr(0, all.find('\n'));
  std::ranges::replace(line, '\t', ' ');
  line.erase(std::unique(line.begin(), line.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
             line.end());
  return line;
}

std::string version_text() { return "ruedarun " RUEDA_BUILT_VERSION "\n"; }

std::string build_text() {
  return fmt::format(
      "Rueda {}\n\n"
      "Frameworks:\n    {} {}\n\n"
      "Transports and backends:\n"
      "    [X] local\n"
      "    {} MPI: {}\n"
      "        library {}\n"
      "        mpiexec {}\n"
      "    {}\n",
      RUEDA_BUILT_VERSION, box(kTorch), torch_line(), box(!std::string_view(RUEDA_BUILT_MPI).empty()),
      mpi_library_version(), RUEDA_BUILT_MPI, RUEDA_BUILT_MPIEXEC, fmt::join(ops::device_report(), "\n    "));
}

std::string config_text(const LaunchOptions& options) {
  ConfigWithOrigins read = read_config([](const std::string& name) { return std::getenv(name.c_str()); });
  std::string text = fmt::format("{:<26} {:>12}  {:<26} {}\n", "setting", "value", "set by", "meaning");
  std::span<const Setting> table = settings();
  for (std::size_t row = 0; row < table.size(); ++row) {
    const auto given = options.settings.find(std::string(table[row].name));
    if (given != options.settings.end()) read.origins[row] = given->second.flag;
    text +=
        fmt::format("RUEDA_{:<20} {:>12}  {:<26} {} ({})\n", table[row].name, table[row].show(read.config),
                    read.origins[row], table[row].meaning, table[row].legal);
  }
  return text;
}

}  // namespace rueda
