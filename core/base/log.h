// SPDX-License-Identifier: Apache-2.0
// Lines for people, on stderr, with time, severity and rank. Callable from any thread. No call waits for a
// reader: a thread of its own writes the lines (core/base/log/line_writer.h).
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "rueda/types.h"

namespace rueda {

enum class LogLevel : std::uint8_t { trace, debug, info, warning, error, fatal, off };

// `name` as in the setting log_level; nothing when it is none of them.
std::optional<LogLevel> log_level_from(std::string_view name);

// What later lines show. Called once by init; before it: warnings, no rank.
void configure_log(LogLevel lowest, bool hide_time, Rank rank);

bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);

// What every user is to know of a job and is no warning: shown unless warnings are not.
void notice(std::string_view text);

// Writes text without a severity, and in no case waits for a reader.
void write_to_stderr(std::string text);
// Waits until all lines are written, at most for `limit`. Returns false if some are not. For the end of a
// process.
bool flush_stderr(std::chrono::milliseconds limit);
inline constexpr auto kLastWordsTime = std::chrono::seconds(10);

template <class... Values>
void log(LogLevel level, fmt::format_string<Values...> format, Values&&... values) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace rueda
