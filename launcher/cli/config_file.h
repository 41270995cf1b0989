// SPDX-License-Identifier: Apache-2.0
// Flags from a file, in the form of horovodrun's --config-file.
#pragma once

#include <string>
#include <vector>

namespace rueda {

struct GivenFlag {
  std::string name;   // without dashes
  std::string value;  // empty where it takes none
  bool operator==(const GivenFlag&) const = default;
};

// A YAML map: flags by name, or sections of them (params, autotune, timeline, stall-check, library-options,
// logging). true stands for a flag without a value, false for its --no-. Throws UsageError that names the
// file and the key.
std::vector<GivenFlag> flags_from_file(const std::string& path);
std::vector<GivenFlag> flags_from_text(const std::string& text, const std::string& path);

}  // namespace rueda
