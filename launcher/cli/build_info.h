// SPDX-License-Identifier: Apache-2.0
// The texts of ruedarun about this Rueda: its version, its build and its settings.
#pragma once

#include <string>

#include "launcher/cli/options.h"

namespace rueda {

std::string version_text();
std::string built_version();        // "0.1.0"
std::string built_torch();          // "2.9.1"; empty: built without torch, or with one of unknown version
std::string mpi_library_version();  // what the library says of itself; or why there is none
std::string build_text();           // --check-build
// --print-config, after export_choices(). Throws InvalidArgument for a setting that is not legal.
std::string config_text(const LaunchOptions& options);

}  // namespace rueda
