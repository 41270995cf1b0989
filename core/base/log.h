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

// Sets level and format of later lines. init calls this once. The default is `warning`, without a rank.
void configure_log(LogLevel lowest, bool hide_time, Rank rank);

bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);

// Tells every user of the job something that is no warning. A log level above `warning` hides the notice.
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
