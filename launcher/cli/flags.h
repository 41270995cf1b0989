// SPDX-License-Identifier: Apache-2.0
// Every flag of ruedarun, and what horovodrun's flags mean here.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rueda {

// One flag. Its `kind` decides its effect.
struct Flag {
  enum class Kind {
    own,      // of ruedarun itself; options.cc acts on it
    setting,  // sets RUEDA_<setting> for the ranks
    ignored,  // accepted, and reported as ignored
  };

  Kind kind = Kind::own;
  std::string_view name;     // without dashes
  std::string_view value;    // what its value is called; empty: it takes none
  std::string_view meaning;  // in --help; or why it is ignored
  std::string_view setting{};
  // The setting's text from the flag's; throws UsageError.
  std::string (*text)(std::string_view flag, const std::string& value) = nullptr;
};

std::span<const Flag> flags();
const Flag* find_flag(std::string_view name);

// The long name, with dashes, of a word that has a spelling of its own ("-np"); else the word.
std::string spelled_out(const std::string& word);

}  // namespace rueda
