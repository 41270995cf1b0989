// SPDX-License-Identifier: Apache-2.0
// Steps of a training whose times are known.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "launcher/view/step_times.h"

namespace rueda {

// Each rank: data, forward, backward, wait for the last one and for 3 ms of moves, step.
class SimulatedSteps {
 public:
  static constexpr std::int64_t kMs = 1'000'000;
  using Extra = std::function<std::int64_t(int rank, Phase phase, std::uint64_t step)>;  // ns

  explicit SimulatedSteps(int ranks, Extra extra, std::int64_t jitter_ns = kMs / 5)
      : extra_(std::move(extra)), jitter_(jitter_ns), now_(static_cast<std::size_t>(ranks), kMs) {}

  // The spans of the next step, by rank.
  std::vector<std::vector<RankSpan>> next() {
    std::vector<std::vector<RankSpan>> spans(now_.size());
    std::vector<std::int64_t> arrivals;
    for (std::size_t rank = 0; rank < now_.size(); ++rank) {
      for (const auto& [phase, length] :
           {std::pair{Phase::data, 2 * kMs}, {Phase::forward, 10 * kMs}, {Phase::backward, 20 * kMs}})
        add(spans[rank], rank, phase, length + random() + extra_(static_cast<int>(rank), phase, step_));
      arrivals.push_back(now_[rank]);
    }
    const std::int64_t end = std::ranges::max(arrivals) + 3 * kMs;
    for (std::size_t rank = 0; rank < now_.size(); ++rank) {
      add(spans[rank], rank, Phase::wait, end - now_[rank]);
      add(spans[rank], rank, Phase::step, kMs + extra_(static_cast<int>(rank), Phase::step, step_));
    }
    ++step_;
    return spans;
  }

  void run_into(StepTimes& times, int steps) {
    times.expect(static_cast<int>(now_.size()));
    for (int i = 0; i < steps; ++i) {
      const auto spans = next();
      for (std::size_t rank = 0; rank < spans.size(); ++rank)
        for (const RankSpan& span : spans[rank]) times.add(static_cast<int>(rank), span, {});
    }
  }

  std::int64_t now() const { return std::ranges::max(now_); }

 private:
  std::int64_t random() { return std::uniform_int_distribution<std::int64_t>(0, jitter_)(random_); }
  void add(std::vector<RankSpan>& spans, std::size_t rank, Phase phase, std::int64_t length) {
    spans.push_back({phase, step_, now_[rank], now_[rank] + length});
    now_[rank] += length;
  }

  const Extra extra_;
  const std::int64_t jitter_;
  std::vector<std::int64_t> now_;
  std::uint64_t step_ = 0;
  std::mt19937 random_{7};
};

inline SimulatedSteps::Extra nobody_is_late() {
  return [](int, Phase, std::uint64_t) { return std::int64_t{0}; };
}

// In one phase, from a step on.
inline SimulatedSteps::Extra late(int who, Phase in, std::uint64_t since, double ms) {
  return [=](int rank, Phase phase, std::uint64_t step) {
    return rank == who && phase == in && step >= since ? static_cast<std::int64_t>(ms * 1e6)
                                                       : std::int64_t{0};
  };
}

}  // namespace rueda
