// SPDX-License-Identifier: Apache-2.0
// Reading the flags of a program, each checked.
#pragma once

#include <fmt/format.h>

#include <array>
#include <boost/program_options.hpp>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace rueda::examples {

// A flag that does not exist or a value that it cannot take; what() is one line for the user.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What a flag may say, and what that means.
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

// Purpose: what the user gave. Each function leaves its target alone where the flag was not given, and throws
// UsageError naming the flag and what would be right. A plain value.
class Flags {
 public:
  // `program` names itself in errors.
  static Flags parse(const boost::program_options::options_description& known, const std::string& program,
                     int argument_count, const char* const* arguments);

  bool given(const char* flag) const { return given_.count(flag) != 0; }

  void path(const char* flag, std::filesystem::path& target) const;
  // For a flag whose value may be left out, which gives an empty path.
  void path(const char* flag, std::optional<std::filesystem::path>& target) const;

  // From `least` to 2^31 - 1.
  template <class T>
  void integer(const char* flag, T& target, std::int64_t least) const {
    if (given(flag)) target = static_cast<T>(checked_integer(flag, least));
  }

  // In [0, limit).
  template <class T>
  void number(const char* flag, T& target, double limit = std::numeric_limits<double>::infinity()) const {
    if (given(flag)) target = checked_number(flag, limit);
  }

  // Any finite number.
  void finite(const char* flag, double& target) const;

  // In (0, 1].
  void share(const char* flag, double& target) const;

  template <class T, std::size_t kCount>
  void choice(const char* flag, T& target, const Choices<T, kCount>& choices) const {
    const std::string* value = text(flag);
    if (value == nullptr) return;
    std::string names;
    for (const auto& [name, meaning] : choices) {
      if (*value == name) {
        target = meaning;
        return;
      }
      names += (names.empty() ? "" : " or ") + std::string(name);
    }
    throw UsageError(fmt::format("--{} is '{}'; it must be {}", flag, *value, names));
  }

  // Null if not given; never empty.
  const std::string* text(const char* flag) const;

 private:
  std::int64_t checked_integer(const char* flag, std::int64_t least) const;
  double checked_number(const char* flag, double limit) const;

  boost::program_options::variables_map given_;
};

}  // namespace rueda::examples
