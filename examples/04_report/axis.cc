// SPDX-License-Identifier: Apache-2.0
#include "examples/04_report/axis.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "examples/04_report/html_text.h"

namespace rueda::examples::report {
namespace {

constexpr double kMostTicks = 9;
constexpr double kIntervals = 5;  // wanted of a linear axis
// So many powers of ten, and fewer, have labels in between.
constexpr double kFewPowers = 2.5;
// Values that are a rounding error beyond a tick belong to it.
constexpr double kSlack = 1e-9;

// The least of 1, 2 or 5 times a power of the base, or of 1 times one of base 2, that is at least `least`.
double round_step(double least, double base = 10) {
  const double power = std::pow(base, std::floor(std::log(least) / std::log(base) + kSlack));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor < base && power * factor >= least * (1 - kSlack)) return power * factor;
  }
  return power * base;
}

// The greatest of those that is at most `most`.
double round_down(double most, double base) {
  const double power = std::pow(base, std::floor(std::log(most) / std::log(base) + kSlack));
  for (const double factor : {5.0, 2.0}) {
    if (factor < base && power * factor <= most * (1 + kSlack)) return power * factor;
  }
  return power;
}

std::string tick_words(double value, double step) {
  if (std::abs(value) < step * kSlack) return "0";
  if (std::abs(value) >= 1e6 || step < 1e-4) return number_words(value);
  return fixed_words(value, std::max(0, static_cast<int>(-std::floor(std::log10(step) + kSlack))));
}

}  // namespace

Axis::Axis(Scale scale, double low, double high) : scale_(scale) {
  if (scale == Scale::linear) {
    make_linear(low, high);
  } else {
    make_logarithmic(low, high);
  }
}

double Axis::scaled(double value) const {
  switch (scale_) {
    case Scale::linear: return value;
    case Scale::log2: return std::log2(value);
    case Scale::log10: return std::log10(value);
  }
  return value;
}

double Axis::fraction(double value) const {
  // Halves, for the difference of two large numbers may be none.
  const double whole = high_ / 2 - low_ / 2;
  return std::clamp((scaled(value) / 2 - low_ / 2) / whole, 0.0, 1.0);
}

void Axis::make_linear(double low, double high) {
  constexpr double kLargest = 1e300;
  low = std::clamp(low, -kLargest, kLargest);
  high = std::clamp(high, -kLargest, kLargest);
  const double size = std::max({std::abs(low), std::abs(high), 1e-300});
  if (high - low < size * 1e-6) {
    const double apart = low == 0 && high == 0 ? 1 : size * 0.1;
    low -= low >= 0 && low < apart ? low : apart;
    high += apart;
  }
  const double step = round_step((high - low) / kIntervals);
  const double first = std::floor(low / step + kSlack), last = std::ceil(high / step - kSlack);
  low_ = first * step;
  high_ = last * step;
  for (double index = first; index <= last; ++index) {
    ticks_.push_back({(index - first) / (last - first), tick_words(index * step, step)});
  }
}

void Axis::make_logarithmic(double low, double high) {
  if (high < low * (1 + 1e-6)) {
    low /= 1.5;
    high *= 1.5;
  }
  const double base = scale_ == Scale::log2 ? 2 : 10;
  low_ = scaled(low);
  high_ = scaled(high);
  // Widened to the next labels.
  if (high_ - low_ > kFewPowers) {
    low_ = std::floor(low_ + kSlack);
    high_ = std::ceil(high_ - kSlack);
  } else if (high > low * 2 * (1 - kSlack)) {
    low_ = scaled(round_down(low, base));
    high_ = scaled(round_step(high, base));
  }
  const auto add = [this](double value) {
    const double at = (scaled(value) - low_) / (high_ - low_);
    if (at >= -kSlack && at <= 1 + kSlack) ticks_.push_back({std::clamp(at, 0.0, 1.0), number_words(value)});
  };
  // Fewer than two powers of ten tell too little; between them stand 2 and 5.
  const bool between = base == 10 && high_ - low_ <= kFewPowers;
  const double stride = std::max(1.0, std::ceil((high_ - low_) / (kMostTicks - 1)));
  for (double power = std::floor(low_); power <= std::ceil(high_); power += stride) {
    const double value = std::pow(base, power);
    add(value);
    if (between) {
      add(value * 2);
      add(value * 5);
    }
  }
  if (ticks_.size() >= 2) return;
  // A range within one factor of two: as on a linear axis.
  ticks_.clear();
  const double step = round_step((high - low) / kIntervals);
  for (double index = std::ceil(low / step); index * step <= high; ++index) {
    const double at = (scaled(index * step) - low_) / (high_ - low_);
    ticks_.push_back({std::clamp(at, 0.0, 1.0), tick_words(index * step, step)});
  }
}

}  // namespace rueda::examples::report
