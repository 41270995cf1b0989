// SPDX-License-Identifier: Apache-2.0
// A job whose ranks take different times by chance, and now and then pause.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "launcher/view/step_times.h"

namespace rueda {

// Purpose: its waits, as StepTimes would keep them. Times are in ms.
class NoisyJob {
 public:
  struct Noise {
    double step_ms = 3;
    double jitter = 0.1;        // of a step, up to
    double pauses = 0.005;      // of the steps of a rank
    double pause_ms = 60;       // up to
    double warm_up_ms = 500;    // of a random rank, in each of the first steps
    std::uint64_t warm_up = 4;  // steps
  };
  using Fault = std::function<double(int rank, std::uint64_t step)>;  // ms more

  NoisyJob(int ranks, Noise noise, Fault fault = {}, unsigned seed = 1)
      : noise_(noise),
        fault_(std::move(fault)),
        free_at_(static_cast<std::size_t>(ranks), 0),
        random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) add_step();
  }
  const std::deque<CommonWait>& waits() const { return waits_; }
  std::uint64_t steps() const { return step_; }

 private:
  double chance() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  double own_ms(std::size_t rank) {
    double ms = noise_.step_ms * (1 + noise_.jitter * chance());
    if (chance() < noise_.pauses) ms += noise_.pause_ms * chance();
    if (step_ < noise_.warm_up && chance() < 0.5) ms += noise_.warm_up_ms * chance();
    return ms + (fault_ ? fault_(static_cast<int>(rank), step_) : 0);
  }

  void add_step() {
    CommonWait wait{.step = step_, .parts = std::vector<WaitPart>(free_at_.size())};
    std::vector<double> arrivals;
    for (std::size_t rank = 0; rank < free_at_.size(); ++rank) {
      const double own = own_ms(rank);
      arrivals.push_back(free_at_[rank] + own);
      WaitPart& part = wait.parts[rank];
      part.is_there = true;
      part.own_ns = static_cast<std::int64_t>(own * 1e6);
      part.arrival_ns = static_cast<std::int64_t>(arrivals.back() * 1e6);
      part.phase_ns[static_cast<std::size_t>(Phase::forward)] = part.own_ns;
    }
    const double end = std::ranges::max(arrivals) + 0.1 * noise_.step_ms;
    for (WaitPart& part : wait.parts) part.release_ns = static_cast<std::int64_t>(end * 1e6);
    std::ranges::fill(free_at_, end);
    const Middle middle = arrivals_of(wait);
    wait.waited_ns = middle.last - middle.median_without(middle.last);
    waits_.push_back(std::move(wait));
    if (waits_.size() > 2048) waits_.pop_front();
    ++step_;
  }

  const Noise noise_;
  const Fault fault_;
  std::vector<double> free_at_;
  std::mt19937 random_;
  std::deque<CommonWait> waits_;
  std::uint64_t step_ = 0;
};

}  // namespace rueda
