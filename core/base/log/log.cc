// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <pthread.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/log/line_writer.h"

namespace rueda {
namespace {

constexpr std::array<std::string_view, 7> kNames{"trace", "debug", "info", "warning",
                                                 "error", "fatal", "off"};

// Lives as long as the process: threads may log to the last.
LineWriter& stderr_writer() {
  static LineWriter* const writer = [] {
    static LineWriter* made = new LineWriter(STDERR_FILENO);
    ::pthread_atfork([] { made->before_fork(); }, [] { made->after_fork_in_parent(); },
                     [] { made->after_fork_in_child(); });
    std::atexit([] { made->flush(kLastWordsTime); });
    return made;
  }();
  return *writer;
}

// Purpose: gives spdlog's lines to the writer of stderr.
class WriterSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    stderr_writer().add({text.data(), text.size()});
  }
  void flush_() override {}
};

spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {  // never destroyed: threads may log while the process ends
    auto* made = new spdlog::logger("rueda", std::make_shared<WriterSink>());
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
  stderr_writer().wait_a_moment();  // without spdlog's lock, so a fork() meanwhile does not copy it locked
}

void notice(std::string_view text) {
  if (log_enabled(LogLevel::warning)) write_to_stderr(fmt::format("rueda: {}\n", text));
}

void write_to_stderr(std::string text) {
  stderr_writer().add(std::move(text));
  stderr_writer().wait_a_moment();
}

bool flush_stderr(std::chrono::milliseconds limit) { return stderr_writer().flush(limit); }

}  // namespace rueda
