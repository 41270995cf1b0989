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
struct TunedParameter {
  std::int64_t TuningParameters::*bytes;  // nullptr: the linger
  std::int64_t least, most;
  bool may_be_zero;
};
constexpr std::int64_t kTick = Duration(std::chrono::microseconds(1)).count();
constexpr std::array kTuned{TunedParameter{&TuningParameters::fusion_threshold, 4 * kKiB, 256 * kMiB, true},
                            TunedParameter{&TuningParameters::chunk_bytes, 64 * kKiB, 4 * kMiB, false},
                            TunedParameter{&TuningParameters::route_bytes, kKiB, 256 * kMiB, true},
                            TunedParameter{nullptr, 50 * kTick, 20'000 * kTick, true}};

struct Direction {
  TunedParameter parameter;
  bool up;
  int factor;
};
// All with the larger step come first.
constexpr std::size_t kDirections = kTuned.size() * 4;
Direction direction_of(std::size_t number) {
  return {kTuned[number / 2 % kTuned.size()], number % 2 == 1, number < kDirections / 2 ? 4 : 2};
}

std::optional<std::int64_t> moved(std::int64_t value, const Direction& direction) {
  const auto& [parameter, up, factor] = direction;
  if (up && value < parameter.least) return parameter.least;
  if (up) return value <= parameter.most / factor ? std::optional(value * factor) : std::nullopt;
  if (value > parameter.most) return parameter.most;
  if (value / factor >= parameter.least) return value / factor;
  return parameter.may_be_zero && value > 0 ? std::optional(std::int64_t{0}) : std::nullopt;
}

std::optional<TuningParameters> moved(TuningParameters parameters, const Direction& direction) {
  std::int64_t TuningParameters::*bytes = direction.parameter.bytes;
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

std::optional<TuningParameters> HillClimb::next(const StepTrace& trace) {
  if (tried() >= most_) return std::nullopt;
  // By this trace: arrivals of another step have other times, and then calls have, too.
  std::vector<std::vector<StepReplay::Call>> known;
  for (const TuningParameters& parameters : tried_) known.push_back(replay_->calls(trace, parameters));
  const std::vector<StepReplay::Call> of_base = replay_->calls(trace, base_);
  const auto is_known = [&](const std::vector<StepReplay::Call>& calls) {
    return std::ranges::find(known, calls) != known.end();
  };
  do {
    if (direction_ == kDirections) {
      direction_ = 0;
      climbed_ = false;
    }
    for (; direction_ < kDirections; ++direction_) {
      std::optional<TuningParameters> further = base_;
      while ((further = moved(*further, direction_of(direction_)))) {
        const std::vector<StepReplay::Call> calls = replay_->calls(trace, *further);
        if (calls == of_base) continue;
        if (is_known(calls)) break;
        return tried_.emplace_back(*further);
      }
    }
  } while (climbed_);
  if (is_known(replay_->calls(trace, defaults_))) return std::nullopt;
  return tried_.emplace_back(defaults_);
}

void HillClimb::won(const TuningParameters& candidate, double gain) {
  base_ = candidate;
  climbed_ = true;
  left_ *= 1 - gain;
}

}  // namespace rueda
