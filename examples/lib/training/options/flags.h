// SPDX-License-Identifier: Apache-2.0
// The flags of a program, a row each: name, target, allowed values, and the text of --help.
#pragma once

#include <fmt/format.h>

#include <array>
#include <boost/program_options.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rueda::examples {

// A flag that does not exist or a value that it cannot take; what() is one line for the user.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The words that a flag takes, and the meaning of each.
template <class T, std::size_t kCount>
using Choices = std::array<std::pair<const char*, T>, kCount>;

inline constexpr Choices<bool, 2> kYesNo{{{"yes", true}, {"no", false}}};

// The word for a value.
template <class T, std::size_t kCount>
const char* name_of(T value, const Choices<T, kCount>& choices) {
  for (const auto& [name, meaning] : choices) {
    if (meaning == value) return name;
  }
  return "unknown";
}

// Purpose: the table of a program's flags. Rows are added first; parse() reads the command line, and apply()
// writes the targets of the flags that were given, in the order of the rows. Others keep their defaults,
// which may be set between the two. Each value is checked: a UsageError names the flag and the values that it
// takes. Targets must outlive the table.
class Flags {
 public:
  using Read = std::function<void(const std::string& value)>;

  // `usage` stands above the table in --help; `program` names itself in errors.
  Flags(std::string program, const std::string& usage);

  // Rows that follow stand below this heading.
  void section(const char* heading);

  // From `least` to 2^31 - 1.
  template <class T>
  void integer(const char* flag, T& target, std::int64_t least, const char* value_name, const char* help) {
    add<std::int64_t>(flag, value_name, help, [&target, flag, least](std::int64_t value) {
      target = static_cast<T>(checked_integer(flag, value, least));
    });
  }

  // In [0, limit). T: double, or an optional of it.
  template <class T>
  void number(const char* flag, T& target, const char* value_name, const char* help,
              double limit = std::numeric_limits<double>::infinity()) {
    add<double>(flag, value_name, help,
                [&target, flag, limit](double value) { target = checked_number(flag, value, limit); });
  }

  // Any finite number.
  void finite(const char* flag, std::optional<double>& target, const char* value_name, const char* help);

  // In (0, 1].
  void share(const char* flag, double& target, const char* value_name, const char* help);

  // T: a path, or an optional of it.
  template <class T>
  void path(const char* flag, T& target, const char* value_name, const char* help) {
    text(
        flag, [&target](const std::string& value) { target = std::filesystem::path(value); }, value_name,
        help);
  }

  // Its value may be left out, which gives an empty path.
  void path_or_none(const char* flag, std::optional<std::filesystem::path>& target, const char* value_name,
                    const char* help);

  template <class Target, class T, std::size_t kCount>
  void choice(const char* flag, Target& target, const Choices<T, kCount>& choices, const char* value_name,
              const char* help) {
    const auto read = [&target, flag, choices](const std::string& value) {
      std::string names;
      for (const auto& [name, meaning] : choices) {
        if (value == name) {
          target = meaning;
          return;
        }
        names += (names.empty() ? "" : " or ") + std::string(name);
      }
      throw UsageError(fmt::format("--{} is '{}'; it must be {}", flag, value, names));
    };
    text(flag, read, value_name, help);
  }

  // A value that is never empty, which `read` takes and checks.
  void text(const char* flag, Read read, const char* value_name, const char* help);

  // False if --help was asked for.
  bool parse(int argument_count, const char* const* arguments);

  bool given(const char* flag) const { return given_.count(flag) != 0; }
  // One flag's row, before the others.
  void apply(const char* flag) const;
  void apply() const;

  std::string help() const;

 private:
  struct Row {
    const char* flag;
    std::function<void(const boost::program_options::variable_value&)> apply;
  };

  template <class T>
  void add(const char* flag, const char* value_name, const char* help, std::function<void(const T&)> apply) {
    add_row(flag, boost::program_options::value<T>()->value_name(value_name), help,
            [apply = std::move(apply)](const boost::program_options::variable_value& value) {
              apply(value.as<T>());
            });
  }
  void add_row(const char* flag, const boost::program_options::value_semantic* value, const char* help,
               std::function<void(const boost::program_options::variable_value&)> apply);

  static std::int64_t checked_integer(const char* flag, std::int64_t value, std::int64_t least);
  static double checked_number(const char* flag, double value, double limit);

  boost::program_options::options_description all() const;

  std::string program_;
  std::vector<boost::program_options::options_description> sections_;
  std::vector<Row> rows_;
  boost::program_options::variables_map given_;
};

}  // namespace rueda::examples
