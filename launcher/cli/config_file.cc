// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>

#include "launcher/cli/flags.h"
#include "launcher/cli/options.h"
#include "launcher/cli/small_file.h"

namespace rueda {
namespace {

// Returns the prefix that makes flags of the keys of each section.
const std::map<std::string, std::string>& sections() {
  static const std::map<std::string, std::string> table{{"params", ""},
                                                        {"library-options", ""},
                                                        {"autotune", "autotune-"},
                                                        {"timeline", "timeline-"},
                                                        {"stall-check", "stall-check-"},
                                                        {"logging", "log-"}};
  return table;
}

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string scalar(const YAML::Node& node, const std::string& path, const std::string& key) {
  if (!node.IsScalar())
    throw UsageError(fmt::format("--config-file {}: '{}' must have one value", path, key));
  return node.Scalar();
}

GivenFlag flag_of(const std::string& name, const std::string& value, const std::string& path) {
  const Flag* flag = find_flag(name);
  const bool is_false = value == "false" || value == "False" || value == "no" || value == "off";
  const bool is_true = value == "true" || value == "True" || value == "yes" || value == "on";
  if (flag != nullptr && !flag->value.empty()) return {name, value};
  if (flag == nullptr || !(is_true || is_false))
    throw UsageError(fmt::format("--config-file {}: '{}: {}' is no flag of ruedarun; see ruedarun --help",
                                 path, name, value));
  return {is_true ? name : "no-" + name, ""};
}

void add_section(const std::string& section, const YAML::Node& keys, const std::string& path,
                 std::vector<GivenFlag>& flags) {
  if (!keys.IsMap()) throw UsageError(fmt::format("--config-file {}: '{}' must be a map", path, section));
  for (const auto& entry : keys) {
    const std::string key = with_dashes(scalar(entry.first, path, section));
    const std::string name = key == "enabled" ? section : sections().at(section) + key;
    flags.push_back(flag_of(name, scalar(entry.second, path, key), path));
  }
}

}  // namespace

std::vector<GivenFlag> flags_from_text(const std::string& text, const std::string& path) {
  std::vector<GivenFlag> flags;
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return flags;
    if (!root.IsMap()) throw UsageError(fmt::format("--config-file {}: it must be a map of flags", path));
    for (const auto& entry : root) {
      const std::string key = with_dashes(scalar(entry.first, path, "a key"));
      if (sections().contains(key) && entry.second.IsMap()) {
        add_section(key, entry.second, path, flags);
      } else {
        flags.push_back(flag_of(key, scalar(entry.second, path, key), path));
      }
    }
  } catch (const YAML::Exception& error) {
    throw UsageError(fmt::format("--config-file {}: {}", path, error.what()));
  }
  // A flag that is switched off and has no --no- form is as if it were not there.
  std::erase_if(flags, [](const GivenFlag& flag) {
    return flag.name.starts_with("no-") && find_flag(flag.name) == nullptr;
  });
  return flags;
}

std::vector<GivenFlag> flags_from_file(const std::string& path) {
  return flags_from_text(read_small_file("--config-file", path), path);
}

}  // namespace rueda
