// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/flags.h"

#include <cmath>
#include <sstream>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/operation_traits.h"
#include "rueda/types.h"

namespace rueda::examples {
namespace {

namespace po = boost::program_options;

constexpr unsigned kLineLength = 110;

// A flag with an optional value takes the next word if that is no flag, which the parser does not do.
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

Flags::Flags(std::string program, const std::string& usage) : program_(std::move(program)) {
  sections_.emplace_back(usage, kLineLength);
  sections_.back().add_options()("help", "show this");
}

void Flags::section(const char* heading) { sections_.emplace_back(heading, kLineLength); }

void Flags::add_row(const char* flag, const po::value_semantic* value, const char* help,
                    std::function<void(const po::variable_value&)> apply) {
  sections_.back().add_options()(flag, value, help);
  rows_.push_back({flag, std::move(apply)});
}

void Flags::text(const char* flag, Read read, const char* value_name, const char* help) {
  add<std::string>(flag, value_name, help, [flag, read = std::move(read)](const std::string& value) {
    if (value.empty()) throw UsageError(fmt::format("--{} needs a value", flag));
    read(value);
  });
}

void Flags::path_or_none(const char* flag, std::optional<std::filesystem::path>& target,
                         const char* value_name, const char* help) {
  add_row(flag, po::value<std::string>()->implicit_value("")->value_name(value_name), help,
          [&target](const po::variable_value& value) { target = value.as<std::string>(); });
}

void Flags::finite(const char* flag, std::optional<double>& target, const char* value_name,
                   const char* help) {
  add<double>(flag, value_name, help, [&target, flag](double value) {
    if (!std::isfinite(value)) throw UsageError(fmt::format("--{} is {}; it must be finite", flag, value));
    target = value;
  });
}

void Flags::share(const char* flag, double& target, const char* value_name, const char* help) {
  add<double>(flag, value_name, help, [&target, flag](double value) {
    if (!is_share(value))
      throw UsageError(fmt::format("--{} is {}; it must be greater than 0 and at most 1", flag, value));
    target = value;
  });
}

po::options_description Flags::all() const {
  po::options_description together = sections_.front();
  for (std::size_t i = 1; i < sections_.size(); ++i) together.add(sections_[i]);
  return together;
}

std::string Flags::help() const {
  std::ostringstream text;
  text << all();
  return text.str();
}

bool Flags::parse(int argument_count, const char* const* arguments) {
  const po::options_description known = all();
  po::options_description with_unexpected = known;
  with_unexpected.add_options()("unexpected", po::value<std::vector<std::string>>());
  po::positional_options_description positions;
  positions.add("unexpected", -1);
  try {
    namespace style = po::command_line_style;
    po::store(po::command_line_parser(joined_words(known, argument_count, arguments))
                  .options(with_unexpected)
                  .positional(positions)
                  .style(style::unix_style & ~style::allow_guessing & ~style::allow_short)
                  .run(),
              given_);
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}; see {} --help", error.what(), program_));
  }
  if (given("unexpected")) {
    throw UsageError(fmt::format("unexpected argument '{}'; see {} --help",
                                 given_["unexpected"].as<std::vector<std::string>>().front(), program_));
  }
  return !given("help");
}

void Flags::apply(const char* flag) const {
  for (const Row& row : rows_) {
    if (given(flag) && std::string_view(row.flag) == flag) row.apply(given_[flag]);
  }
}

void Flags::apply() const {
  for (const Row& row : rows_) {
    if (given(row.flag)) row.apply(given_[row.flag]);
  }
}

std::int64_t Flags::checked_integer(const char* flag, std::int64_t value, std::int64_t least) {
  if (value >= least && value <= std::numeric_limits<std::int32_t>::max()) return value;
  throw UsageError(fmt::format("--{} is {}; it must be at least {} and below 2^31", flag, value, least));
}

double Flags::checked_number(const char* flag, double value, double limit) {
  if (value >= 0 && value < limit) return value;
  throw UsageError(fmt::format("--{} is {}; it must be at least 0 and below {}", flag, value, limit));
}

}  // namespace rueda::examples
