// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/step_history.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

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

void StepHistory::add(const StepNumbers& step) {
  if (losses.empty() && parts.empty()) {
    for (const auto& [name, value] : step.parts) parts.emplace_back(name, std::vector<double>());
  }
  if (step.parts.size() != parts.size()) throw std::logic_error("a step has other parts of the loss");
  for (const auto& [name, value] : step.parts) {  // not by their indices: loaded parts may differ
    const auto column = std::ranges::find(parts, name, &decltype(parts)::value_type::first);
    if (column == parts.end()) throw std::logic_error("no step before had a part of the loss called " + name);
    column->second.push_back(value);
  }
  losses.push_back(step.loss);
  learning_rates.push_back(step.learning_rate);
  seconds.push_back(step.seconds);
  samples.push_back(step.samples);
}

void StepHistory::keep_first(std::size_t steps) {
  const auto cut = [&](std::vector<double>& values) { values.resize(std::min(steps, values.size())); };
  for (std::vector<double>* values : {&losses, &learning_rates, &seconds, &samples}) cut(*values);
  for (auto& [name, values] : parts) cut(values);
  averaged = std::min(averaged, losses.size());
}

std::vector<CurvePoint> curve(const StepHistory& history, std::size_t most) {
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
    point.samples_per_s = seconds > 0 ? sum(history.samples, begin, end) / seconds : 0;
    for (const auto& [name, values] : history.parts)
      point.parts.emplace_back(name, sum(values, begin, end) / width);
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
