// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdio>
#include <memory>

namespace rueda {
namespace {

constexpr std::array<std::string_view, 7> kNames{"trace", "debug", "info", "warning",
                                                 "error", "fatal", "off"};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("rueda", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::warn);
    made->set_pattern("rueda: %l: %v");
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum level_of(LogLevel level) { return static_cast<spdlog::level::level_enum>(level); }

}  // namespace

std::optional<LogLevel> log_level_from(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

void configure_log(LogLevel lowest, bool hide_time, Rank rank) {
  logger().set_level(level_of(lowest));
  logger().set_pattern(
      fmt::format("{}rueda rank {}: %l: %v", hide_time ? "" : "%Y-%m-%d %H:%M:%S.%e ", rank));
}

bool log_enabled(LogLevel level) { return logger().should_log(level_of(level)); }

void log_line(LogLevel level, std::string_view text) {
  logger().log(level_of(level), "{}", text);
  logger().flush();
}

void notice(std::string_view text) {
  if (log_enabled(LogLevel::warning)) std::fputs(fmt::format("rueda: {}\n", text).c_str(), stderr);
}

}  // namespace rueda
