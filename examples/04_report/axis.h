// SPDX-License-Identifier: Apache-2.0
// The positions of values along a side of a chart, and the choice of labelled values.
#pragma once

#include <string>
#include <vector>

namespace rueda::examples::report {

enum class Scale { linear, log2, log10 };

struct Tick {
  double fraction = 0;  // from 0 to 1 along the axis
  std::string label;
};

// The axis that holds all of [low, high], widened to round numbers. At most nine ticks, so that their labels
// stay apart on a chart 300 pixels wide. A value; immutable.
class Axis {
 public:
  // Of a logarithmic axis low must be greater than 0. Equal ends are moved apart.
  Axis(Scale scale, double low, double high);

  double fraction(double value) const;
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void make_linear(double low, double high);
  void make_logarithmic(double low, double high);
  double scaled(double value) const;

  Scale scale_;
  double low_ = 0;  // as scaled() gives them
  double high_ = 1;
  std::vector<Tick> ticks_;
};

}  // namespace rueda::examples::report
