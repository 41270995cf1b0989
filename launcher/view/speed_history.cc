// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/speed_history.h"

#include <utility>

namespace rueda {
namespace {

constexpr std::size_t kMostPoints = 1024;

}  // namespace

void SpeedHistory::add(std::uint64_t step, double samples_per_s, double step_ms) {
  // An elastic job goes back to its last commit.
  while (!points_.empty() && points_.back().step > step) points_.pop_back();
  const bool is_same = std::exchange(last_step_, step) == step;
  if (!points_.empty() && points_.back().step == step) {
    points_.back() = {step, samples_per_s, step_ms};
    return;
  }
  if (is_same) return;
  if (added_++ % stride_ == 0) points_.push_back({step, samples_per_s, step_ms});
  if (points_.size() < kMostPoints) return;
  stride_ *= 2;
  for (std::size_t i = 0; i < kMostPoints / 2; ++i) points_[i] = points_[2 * i];
  points_.resize(kMostPoints / 2);
}

nlohmann::json SpeedHistory::as_json() const {
  nlohmann::json curves = nlohmann::json::object();
  for (const SpeedPoint& point : points_) {
    if (point.samples_per_s > 0) curves["samples/s"].push_back({point.step, point.samples_per_s});
    if (point.step_ms > 0) curves["ms a step"].push_back({point.step, point.step_ms});
  }
  return curves;
}

}  // namespace rueda
