// SPDX-License-Identifier: Apache-2.0
// How far a training run is: a bar that redraws itself on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace rueda::examples {

// What is known after a step, as one line without the bar.
struct ProgressState {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double loss = 0;
  double samples_per_second = 0;
  double seconds_left = 0;
  std::vector<std::pair<std::string, double>> parts;  // of the loss
};

std::string progress_line(const ProgressState& state);
// The bar and the line, to fit a terminal of `columns`.
std::string progress_bar(const ProgressState& state, int columns);
// 75 -> "1:15", 3675 -> "1:01:15".
std::string clock_time(double seconds);

// Reports the steps of one training run on `stream`, from the rank that creates it. Used by one thread;
// finish() or the destructor ends the line of the bar. Plain lines come at the first and last step and every
// twentieth of the run, but not closer than two seconds.
class Progress {
 public:
  // Of `steps`, `done` were done by an earlier run.
  Progress(std::int64_t steps, std::int64_t samples_per_step, std::int64_t done = 0,
           std::FILE* stream = stdout);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `parts`: what the loss is made of, the same names every time.
  void step_done(double loss, const std::vector<std::pair<std::string, double>>& parts = {});
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  void draw(Clock::time_point now);

  std::int64_t samples_per_step_;
  std::int64_t done_before_;
  std::FILE* stream_;
  bool terminal_;
  bool line_open_ = false;
  ProgressState state_;
  std::int64_t last_line_step_ = 0;
  Clock::time_point begin_;
  Clock::time_point last_draw_;
};

}  // namespace rueda::examples
