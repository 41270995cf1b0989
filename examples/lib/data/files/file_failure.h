// SPDX-License-Identifier: Apache-2.0
// The words for a failure on a file.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace rueda::examples {

// Throws std::runtime_error "cannot WHAT FILE: the system's words for `error`".
[[noreturn]] inline void fail_on_file(const char* what, const std::filesystem::path& path, int error) {
  throw std::runtime_error(std::string("cannot ") + what + " " + path.string() + ": " +
                           std::generic_category().message(error));
}

}  // namespace rueda::examples
