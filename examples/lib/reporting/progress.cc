// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/reporting/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace rueda::examples {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kBarInterval{100};
constexpr seconds kLineInterval{2};
constexpr seconds kLongestSilence{60};
constexpr std::size_t kRecentSteps = 20;
constexpr int kDefaultColumns = 80;
constexpr int kWidestBar = 40;
// The loss shown is a moving average: single batches jump.
constexpr double kNewLossShare = 0.1;

int terminal_columns(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

}  // namespace

std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string progress_line(const ProgressState& state) {
  std::string parts;
  for (const auto& [name, value] : state.parts)
    parts += fmt::format("{}{} {:.4f}", parts.empty() ? " (" : ", ", name, value);
  if (!parts.empty()) parts += ")";
  return fmt::format("step {}/{}  loss {:.4f}{}  {:.1f} samples/s  {} passed, {} left", state.step,
                     state.steps, state.loss, parts, state.samples_per_second, clock_time(state.seconds),
                     clock_time(state.seconds_left));
}

std::string progress_bar(const ProgressState& state, int columns) {
  const std::string line = progress_line(state);
  const int width = std::min(kWidestBar, columns - static_cast<int>(line.size()) - 4);
  if (width < 1) return line.substr(0, std::max(0, columns - 1));
  const auto filled = static_cast<int>(state.steps > 0 ? width * state.step / state.steps : width);
  return fmt::format("[{}{}] {}", std::string(filled, '#'), std::string(width - filled, '.'), line);
}

Progress::Progress(std::int64_t steps, std::int64_t samples_per_step, std::int64_t done, std::FILE* stream,
                   std::function<Clock::time_point()> clock)
    : samples_per_step_(samples_per_step),
      done_before_(done),
      stream_(stream),
      clock_(std::move(clock)),
      terminal_(isatty(fileno(stream)) != 0),
      begin_(clock_()),
      step_begin_(begin_),
      last_draw_(begin_) {
  state_.steps = steps;
  state_.step = done;
  last_line_step_ = done;
}

Progress::~Progress() { finish(); }

void Progress::step_done(double loss, const std::vector<std::pair<std::string, double>>& parts) {
  const Clock::time_point now = clock_();
  const std::int64_t done = ++state_.step - done_before_;
  const auto follow = [&](double& average, double value) {
    average = done == 1 ? value : average + kNewLossShare * (value - average);
  };
  follow(state_.loss, loss);
  state_.parts.resize(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    state_.parts[i].first = parts[i].first;
    follow(state_.parts[i].second, parts[i].second);
  }
  measure(now);
  draw(now);
}

void Progress::measure(Clock::time_point now) {
  recent_.push_back(now - std::exchange(step_begin_, now));
  if (recent_.size() > kRecentSteps) recent_.pop_front();
  const double taken =
      duration<double>(std::accumulate(recent_.begin(), recent_.end(), Clock::duration{})).count();
  const double step = taken / static_cast<double>(recent_.size());
  state_.samples_per_second = step > 0 ? static_cast<double>(samples_per_step_) / step : 0;
  state_.seconds = duration<double>(now - begin_).count();
  state_.seconds_left = step * static_cast<double>(state_.steps - state_.step);
}

void Progress::draw(Clock::time_point now) {
  const bool edge = state_.step == done_before_ + 1 || state_.step == state_.steps;
  if (terminal_) {
    if (!edge && now - last_draw_ < kBarInterval) return;
    fmt::print(stream_, "\r{}\x1b[K", progress_bar(state_, terminal_columns(stream_)));
    line_open_ = true;
  } else {
    const bool far_enough = (state_.step - last_line_step_) * 20 >= state_.steps;
    if (!edge && now - last_draw_ < (far_enough ? kLineInterval : kLongestSilence)) return;
    fmt::print(stream_, "{}\n", progress_line(state_));
    last_line_step_ = state_.step;
  }
  last_draw_ = now;
  std::fflush(stream_);
}

void Progress::finish() {
  if (!line_open_) return;
  std::fputc('\n', stream_);
  std::fflush(stream_);
  line_open_ = false;
}

}  // namespace rueda::examples
