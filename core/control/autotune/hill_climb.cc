// SPDX-License-Identifier: Apache-2.0
#include "core/control/autotune/hill_climb.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace rueda {
namespace {

constexpr std::int64_t kKiB = 1 << 10, kMiB = 1 << 20;

// A parameter as a whole number: bytes, or ticks of the clock.
struct Knob {
  std::int64_t TuningParameters::*bytes;  // nullptr: the linger
  std::int64_t least, most;
  bool may_be_zero;
};
constexpr std::int64_t kTick = Duration(std::chrono::microseconds(1)).count();
constexpr std::array kKnobs{Knob{&TuningParameters::fusion_threshold, 4 * kKiB, 256 * kMiB, true},
                            Knob{&TuningParameters::chunk_bytes, 64 * kKiB, 4 * kMiB, false},
                            Knob{&TuningParameters::route_bytes, kKiB, 256 * kMiB, true},
                            Knob{nullptr, 50 * kTick, 20'000 * kTick, true}};

struct Direction {
  Knob knob;
  bool up;
  int factor;
};
// All with the larger step come first.
constexpr std::size_t kDirections = kKnobs.size() * 4;
Direction direction_of(std::size_t number) {
  return {kKnobs[number / 2 % kKnobs.size()], number % 2 == 1, number < kDirections / 2 ? 4 : 2};
}

std::optional<std::int64_t> moved(std::int64_t value, const Direction& direction) {
  const auto& [knob, up, factor] = direction;
  if (up && value < knob.least) return knob.least;
  if (up) return value <= knob.most / factor ? std::optional(value * factor) : std::nullopt;
  if (value > knob.most) return knob.most;
  if (value / factor >= knob.least) return value / factor;
  return knob.may_be_zero && value > 0 ? std::optional(std::int64_t{0}) : std::nullopt;
}

std::optional<TuningParameters> moved(TuningParameters parameters, const Direction& direction) {
  std::int64_t TuningParameters::*bytes = direction.knob.bytes;
  const auto value = moved(bytes != nullptr ? parameters.*bytes : parameters.linger.count(), direction);
  if (!value) return std::nullopt;
  if (bytes != nullptr) {
    parameters.*bytes = *value;
  } else {
    parameters.linger = Duration(*value);
  }
  return parameters;
}

}  // namespace

HillClimb::HillClimb(const StepReplay& replay, const TuningParameters& defaults,
                     const TuningParameters& start, int most)
    : replay_(&replay), defaults_(defaults), base_(start), most_(most), tried_{start} {}

bool HillClimb::known(const TuningParameters& parameters) const {
  return std::ranges::find(tried_, parameters) != tried_.end();
}

std::optional<TuningParameters> HillClimb::next(const StepTrace& trace) {
  if (tried() >= most_) return std::nullopt;
  const std::vector<StepReplay::Call> of_base = replay_->calls(trace, base_);
  do {
    if (direction_ == kDirections) {
      direction_ = 0;
      climbed_ = false;
    }
    for (; direction_ < kDirections; ++direction_) {
      std::optional<TuningParameters> further = base_;
      while ((further = moved(*further, direction_of(direction_)))) {
        if (replay_->calls(trace, *further) == of_base) continue;
        if (known(*further)) break;
        return tried_.emplace_back(*further);
      }
    }
  } while (climbed_);
  if (known(defaults_)) return std::nullopt;
  return tried_.emplace_back(defaults_);
}

void HillClimb::won(const TuningParameters& candidate, double gain) {
  base_ = candidate;
  climbed_ = true;
  left_ *= 1 - gain;
}

}  // namespace rueda
