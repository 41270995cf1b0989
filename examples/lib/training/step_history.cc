// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/step_history.h"

#include <algorithm>
#include <functional>

namespace rueda::examples {
namespace {

double sum(const std::vector<double>& values, std::size_t begin, std::size_t end) {
  double result = 0;
  for (std::size_t i = begin; i < end; ++i) result += values[i];
  return result;
}

double median_ms(const std::vector<StepTime>& times, const std::function<double(const StepTime&)>& part) {
  std::vector<double> values;
  for (const StepTime& time : times) values.push_back(part(time) * 1e3);
  return median(std::move(values));
}

}  // namespace

std::vector<CurvePoint> curve(const StepHistory& history, double samples_per_step, std::size_t most) {
  std::vector<CurvePoint> points;
  const std::size_t steps = history.losses.size();
  const std::size_t count = std::min(steps, most);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = steps * i / count;
    const std::size_t end = steps * (i + 1) / count;
    const auto width = static_cast<double>(end - begin);
    CurvePoint& point = points.emplace_back();
    point.step = static_cast<std::int64_t>(end);
    point.loss = sum(history.losses, begin, end) / width;
    point.learning_rate = history.learning_rates[end - 1];
    const double seconds = sum(history.seconds, begin, end);
    point.samples_per_s = seconds > 0 ? samples_per_step * width / seconds : 0;
    for (std::size_t part = 0; part < history.parts.size(); ++part)
      point.parts.emplace_back(history.part_names[part], sum(history.parts[part], begin, end) / width);
  }
  return points;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

StepSplit split_of(const std::vector<StepTime>& times) {
  StepSplit split;
  for (const StepTime& time : times) {
    split.total += time.whole * 1e3;
    split.cpu += time.cpu * 1e3 / static_cast<double>(times.size());
  }
  split.step = median_ms(times, [](const StepTime& time) { return time.whole; });
  split.data = median_ms(times, [](const StepTime& time) { return time.data; });
  split.compute = median_ms(times, [](const StepTime& time) { return time.whole - time.data - time.wait; });
  split.wait = median_ms(times, [](const StepTime& time) { return time.wait; });
  return split;
}

}  // namespace rueda::examples
