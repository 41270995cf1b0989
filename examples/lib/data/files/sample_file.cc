// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/files/sample_file.h"

#include <system_error>

namespace rueda::examples {

std::filesystem::path sample_file(const std::string& name) {
  std::filesystem::path built_from = std::filesystem::path(RUEDA_EXAMPLES_DATA) / name;
  if (std::filesystem::exists(built_from)) return built_from;
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  return program.parent_path().parent_path() / "share" / "rueda" / "examples" / name;
}

}  // namespace rueda::examples
