// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/terminal_session.h"

#include <unistd.h>

#include <algorithm>

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr auto kBetweenLooks = 300ms;
constexpr auto kInSuccession = 1s;
constexpr auto kQuiet = 100ms;  // after the last output of rank 0
constexpr auto kLastOutput = 2s;
constexpr std::size_t kDemand = 3;
constexpr char kInterrupt = '\x03';

bool wants_terminal(const LaunchOptions& options) {
  const bool shown = options.shown.empty() || options.shown.contains(0);
  switch (options.terminal) {
    case LaunchOptions::Terminal::never: return false;
    case LaunchOptions::Terminal::always: return true;
    case LaunchOptions::Terminal::automatic: break;
  }
  // Errors that go elsewhere would lose their way: a terminal has one stream for both.
  return shown && is_terminal_of_ours(STDIN_FILENO) && ::isatty(STDOUT_FILENO) == 1 &&
         ::isatty(STDERR_FILENO) == 1;
}

}  // namespace

TerminalSession::TerminalSession(const LaunchOptions& options)
    : wanted_(wants_terminal(options)), has_keys_(::isatty(STDIN_FILENO) == 1) {}

std::optional<TerminalSize> TerminalSession::size() const {
  if (!wanted_) return std::nullopt;
  return terminal_size(::isatty(STDOUT_FILENO) == 1 ? STDOUT_FILENO : STDIN_FILENO);
}

void TerminalSession::on_start() {
  if (!wanted_ || !has_keys_ || state_ != State::waiting) return;
  state_ = State::running;
}

void TerminalSession::on_output(Time now) {
  if (state_ == State::leaving) leave_at_ = std::min(now + kQuiet, leave_by_);
}

void TerminalSession::on_end(Time now) {
  if (state_ != State::running) return;
  state_ = State::leaving;
  leave_at_ = now + kQuiet;
  leave_by_ = now + kLastOutput;
}

bool TerminalSession::resume() { return state_ == State::running && raw_.enter(); }

void TerminalSession::leave() {
  state_ = State::over;
  raw_.leave();
}

void TerminalSession::do_without() {
  wanted_ = false;
  leave();
}

TerminalSession::Act TerminalSession::next_act(Time now, bool all_is_shown) {
  if (state_ == State::running && !raw_.is_on() && all_is_shown && resume()) return Act::resumed;
  if (state_ != State::leaving || now < leave_at_) return Act::nothing;
  if (!all_is_shown && now < leave_by_) {
    leave_at_ = std::min(now + kQuiet, leave_by_);
    return Act::nothing;
  }
  leave();
  return Act::left;
}

std::optional<TerminalSession::Time> TerminalSession::next_time(Time now) const {
  if (state_ == State::leaving) return leave_at_;
  if (state_ == State::running && !raw_.is_on()) return now + kBetweenLooks;
  return std::nullopt;
}

bool TerminalSession::demands_end(std::string_view typed, bool is_ending, Time now) {
  if (!raw_.is_on()) return false;
  const auto count = std::ranges::count(typed, kInterrupt);
  if (is_ending || state_ != State::running) return count > 0;
  while (!interrupts_.empty() && interrupts_.front() + kInSuccession < now) interrupts_.pop_front();
  for (auto left = std::min<std::ptrdiff_t>(count, kDemand); left > 0; --left) interrupts_.push_back(now);
  if (interrupts_.size() < kDemand) return false;
  interrupts_.clear();
  return true;
}

}  // namespace rueda
