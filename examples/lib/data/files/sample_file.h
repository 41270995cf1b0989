// SPDX-License-Identifier: Apache-2.0
// The path of the sample data.
#pragma once

#include <filesystem>
#include <string>

namespace rueda::examples {

// A file of examples/data: in the source tree this program was built from, else beside the installed program.
std::filesystem::path sample_file(const std::string& name);

}  // namespace rueda::examples
