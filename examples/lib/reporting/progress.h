// SPDX-License-Identifier: Apache-2.0
// How far a training run is: a bar that redraws itself on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace rueda::examples {

// The numbers after a step, as one line without the bar.
struct ProgressState {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double loss = 0;
  double samples_per_second = 0;                      // of recent steps
  double seconds = 0;                                 // since the run began
  double seconds_left = 0;                            // as fast as recent steps
  std::vector<std::pair<std::string, double>> parts;  // of the loss
};

std::string progress_line(const ProgressState& state);
// The bar and the line, to fit a terminal of `columns`.
std::string progress_bar(const ProgressState& state, int columns);
// 75 -> "1:15", 3675 -> "1:01:15".
std::string clock_time(double seconds);

// Reports the steps of one training run on `stream`, from the rank that creates it. Used by one thread;
// finish() or the destructor ends the line of the bar. Plain lines come at the first and last step and every
// twentieth of the run, but not closer than two seconds; and whenever a minute has passed.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // Of `steps`, `done` were done by an earlier run.
  Progress(std::int64_t steps, std::int64_t samples_per_step, std::int64_t done = 0,
           std::FILE* stream = stdout, std::function<Clock::time_point()> clock = Clock::now);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `parts`: the parts of the loss, with the same names every time.
  void step_done(double loss, const std::vector<std::pair<std::string, double>>& parts = {});
  // Something else than a step has ended: its time is none of the next step's.
  void go_on() { step_begin_ = clock_(); }
  void finish();

 private:
  void measure(Clock::time_point now);
  void draw(Clock::time_point now);

  std::int64_t samples_per_step_;
  std::int64_t done_before_;
  std::FILE* stream_;
  std::function<Clock::time_point()> clock_;
  bool terminal_;
  bool line_open_ = false;
  ProgressState state_;
  std::int64_t last_line_step_ = 0;
  Clock::time_point begin_;
  Clock::time_point step_begin_;
  Clock::time_point last_draw_;
  std::deque<Clock::duration> recent_;  // the times of the last steps
};

}  // namespace rueda::examples
