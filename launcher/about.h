// SPDX-License-Identifier: Apache-2.0
// What ruedarun can say about this Rueda.
#pragma once

#include <string>

namespace rueda {

std::string version_text();
std::string build_text();   // --check-build
std::string config_text();  // --print-config: throws InvalidArgument for a setting that is not legal

}  // namespace rueda
