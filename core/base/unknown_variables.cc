// SPDX-License-Identifier: Apache-2.0
#include "core/base/unknown_variables.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/config.h"

namespace rueda {
namespace {

constexpr std::string_view kPrefix = "RUEDA_";

// How many letters have to be changed, put in or taken out (Levenshtein).
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> meant_setting(std::string_view variable) {
  if (!variable.starts_with(kPrefix)) return std::nullopt;
  const std::string_view name = variable.substr(kPrefix.size());
  const Setting* nearest = nullptr;
  std::size_t least = 3;
  for (const Setting& setting : settings()) {
    const std::size_t edits = edits_between(name, setting.name);
    if (edits == 0) return std::nullopt;
    if (edits >= least || 2 * edits >= setting.name.size()) continue;
    least = edits;
    nearest = &setting;
  }
  if (nearest == nullptr) return std::nullopt;
  return fmt::format("{}{}", kPrefix, nearest->name);
}

std::vector<std::string> misspelled_settings(std::span<const char* const> environment) {
  std::vector<std::string> words;
  for (const std::string_view entry : environment) {
    const std::string_view variable = entry.substr(0, entry.find('='));
    if (const std::optional<std::string> meant = meant_setting(variable))
      words.push_back(fmt::format("{} is no setting and has no effect; is {} meant?", variable, *meant));
  }
  std::ranges::sort(words);
  return words;
}

std::vector<std::string> misspelled_settings() {
  std::size_t count = 0;
  while (environ[count] != nullptr) ++count;
  return misspelled_settings(std::span<const char* const>(environ, count));
}

}  // namespace rueda
