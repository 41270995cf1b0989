// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/flags.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/types.h"

namespace rueda::examples {
namespace {

namespace po = boost::program_options;

// A flag whose value may be left out takes the next word if that is no flag, which the parser does not do.
std::vector<std::string> joined_words(const po::options_description& known, int argument_count,
                                      const char* const* arguments) {
  std::vector<std::string> words;
  for (int i = 1; i < argument_count; ++i) {
    const std::string_view word = arguments[i];
    if (!words.empty() && words.back().starts_with("--") && !word.starts_with("-") && !word.empty()) {
      const po::option_description* flag = known.find_nothrow(words.back().substr(2), false);
      if (flag != nullptr && flag->semantic()->min_tokens() == 0 && flag->semantic()->max_tokens() == 1) {
        words.back() += "=" + std::string(word);
        continue;
      }
    }
    words.emplace_back(word);
  }
  return words;
}

}  // namespace

Flags Flags::parse(const po::options_description& known, const std::string& program, int argument_count,
                   const char* const* arguments) {
  po::options_description all;
  all.add(known).add_options()("unexpected", po::value<std::vector<std::string>>());
  po::positional_options_description positions;
  positions.add("unexpected", -1);
  Flags flags;
  try {
    namespace style = po::command_line_style;
    po::store(po::command_line_parser(joined_words(known, argument_count, arguments))
                  .options(all)
                  .positional(positions)
                  .style(style::unix_style & ~style::allow_guessing & ~style::allow_short)
                  .run(),
              flags.given_);
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}; see {} --help", error.what(), program));
  }
  if (flags.given("unexpected")) {
    throw UsageError(fmt::format("unexpected argument '{}'; see {} --help",
                                 flags.given_["unexpected"].as<std::vector<std::string>>().front(), program));
  }
  return flags;
}

const std::string* Flags::text(const char* flag) const {
  if (!given(flag)) return nullptr;
  const auto& value = given_[flag].as<std::string>();
  if (value.empty()) throw UsageError(fmt::format("--{} needs a value", flag));
  return &value;
}

void Flags::path(const char* flag, std::filesystem::path& target) const {
  if (const std::string* value = text(flag)) target = *value;
}

void Flags::path(const char* flag, std::optional<std::filesystem::path>& target) const {
  if (given(flag)) target = given_[flag].as<std::string>();
}

void Flags::finite(const char* flag, double& target) const {
  if (!given(flag)) return;
  target = given_[flag].as<double>();
  if (!std::isfinite(target)) throw UsageError(fmt::format("--{} is {}; it must be finite", flag, target));
}

void Flags::share(const char* flag, double& target) const {
  if (!given(flag)) return;
  target = given_[flag].as<double>();
  if (!is_share(target))
    throw UsageError(fmt::format("--{} is {}; it must be greater than 0 and at most 1", flag, target));
}

std::int64_t Flags::checked_integer(const char* flag, std::int64_t least) const {
  const auto value = given_[flag].as<std::int64_t>();
  if (value >= least && value <= std::numeric_limits<std::int32_t>::max()) return value;
  throw UsageError(fmt::format("--{} is {}; it must be at least {} and below 2^31", flag, value, least));
}

double Flags::checked_number(const char* flag, double limit) const {
  const auto value = given_[flag].as<double>();
  if (value >= 0 && value < limit) return value;
  throw UsageError(fmt::format("--{} is {}; it must be at least 0 and below {}", flag, value, limit));
}

}  // namespace rueda::examples
