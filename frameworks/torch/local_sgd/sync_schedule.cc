// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/local_sgd/sync_schedule.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/base/number.h"

namespace rueda {
namespace {

using Kind = SyncSchedule::Kind;

// A schedule's name, and how many numbers follow it.
struct Row {
  Kind kind;
  std::string_view name;
  std::size_t fewest;
  std::size_t most;
  std::string_view form;
};
constexpr std::array kRows{
    Row{Kind::every_step, "every_step", 0, 0, "every_step"},
    Row{Kind::accumulate, "accumulate", 1, 1, "accumulate:STEPS"},
    Row{Kind::local_sgd, "local_sgd", 1, 1, "local_sgd:STEPS"},
    Row{Kind::diloco, "diloco", 1, 3, "diloco:STEPS[:OUTER_LEARNING_RATE[:OUTER_MOMENTUM]]"},
    Row{Kind::adaptive, "adaptive", 0, 3, "adaptive[:TARGET[:MOST_STEPS[:MOST_STRETCH]]]"},
    Row{Kind::one_step_late, "one_step_late", 0, 0, "one_step_late"},
};

[[noreturn]] void refuse_words(std::string_view words) {
  std::string forms;
  for (const Row& row : kRows) forms += fmt::format("{}{}", forms.empty() ? "" : ", ", row.form);
  refuse(fmt::format("'{}' is no schedule of synchronisation; it must be one of {}", words, forms));
}

std::vector<std::string_view> parts_of(std::string_view words) {
  std::vector<std::string_view> parts;
  for (std::size_t colon = words.find(':'); colon != words.npos; colon = words.find(':')) {
    parts.push_back(words.substr(0, colon));
    words.remove_prefix(colon + 1);
  }
  parts.push_back(words);
  return parts;
}

template <class Number>
Number number(std::string_view text, std::string_view words) {
  const std::optional<Number> value = number_from<Number>(text);
  if (!value) refuse_words(words);
  return *value;
}

void check_range(bool good, std::string_view what, double value, std::string_view range) {
  if (!good)
    refuse(fmt::format("a schedule of synchronisation has {} {}; it must be {}", what, value, range));
}

}  // namespace

SyncSchedule::SyncSchedule(Kind kind, std::int64_t steps) : kind_(kind), steps_(steps) {
  constexpr std::int64_t kMost = 1 << 20;
  if (steps < 1 || steps > kMost)
    refuse(fmt::format("a schedule of synchronisation has steps {}; it must be 1 to {}", steps, kMost));
}

SyncSchedule SyncSchedule::accumulate(std::int64_t steps) { return {Kind::accumulate, steps}; }

SyncSchedule SyncSchedule::local_sgd(std::int64_t steps) { return {Kind::local_sgd, steps}; }

SyncSchedule SyncSchedule::diloco(std::int64_t steps, double outer_learning_rate, double outer_momentum) {
  check_range(std::isfinite(outer_learning_rate) && outer_learning_rate > 0, "an outer learning rate of",
              outer_learning_rate, "greater than 0");
  check_range(outer_momentum >= 0 && outer_momentum < 1, "an outer momentum of", outer_momentum,
              "from 0 to below 1");
  SyncSchedule schedule(Kind::diloco, steps);
  schedule.outer_learning_rate_ = outer_learning_rate;
  schedule.outer_momentum_ = outer_momentum;
  return schedule;
}

SyncSchedule SyncSchedule::adaptive(double target, std::int64_t most_steps, double most_stretch) {
  check_range(std::isfinite(target) && target > 0, "a target of", target, "greater than 0");
  check_range(std::isfinite(most_stretch) && most_stretch >= 1, "a stretch of at most", most_stretch,
              "1 or greater");
  SyncSchedule schedule(Kind::adaptive, most_steps);
  schedule.target_ = target;
  schedule.most_stretch_ = most_stretch;
  return schedule;
}

SyncSchedule SyncSchedule::one_step_late() { return {Kind::one_step_late, 1}; }

SyncSchedule SyncSchedule::parse(std::string_view words) {
  const std::vector<std::string_view> parts = parts_of(words);
  const std::size_t numbers = parts.size() - 1;
  auto steps = [&](std::size_t i) { return number<std::int64_t>(parts[i], words); };
  auto real = [&](std::size_t i) { return number<double>(parts[i], words); };
  for (const Row& row : kRows) {
    if (row.name != parts[0]) continue;
    if (numbers < row.fewest || numbers > row.most) break;
    switch (row.kind) {
      case Kind::every_step: return every_step();
      case Kind::accumulate: return accumulate(steps(1));
      case Kind::local_sgd: return local_sgd(steps(1));
      case Kind::diloco:
        if (numbers == 1) return diloco(steps(1));
        return numbers == 2 ? diloco(steps(1), real(2)) : diloco(steps(1), real(2), real(3));
      case Kind::adaptive:
        if (numbers == 0) return adaptive();
        if (numbers == 1) return adaptive(real(1));
        return numbers == 2 ? adaptive(real(1), steps(2)) : adaptive(real(1), steps(2), real(3));
      case Kind::one_step_late: return one_step_late();
    }
  }
  refuse_words(words);
}

std::string SyncSchedule::to_string() const {
  switch (kind_) {
    case Kind::every_step: return "every_step";
    case Kind::accumulate: return fmt::format("accumulate:{}", steps_);
    case Kind::local_sgd: return fmt::format("local_sgd:{}", steps_);
    case Kind::diloco: return fmt::format("diloco:{}:{}:{}", steps_, outer_learning_rate_, outer_momentum_);
    case Kind::adaptive: return fmt::format("adaptive:{}:{}:{}", target_, steps_, most_stretch_);
    case Kind::one_step_late: return "one_step_late";
  }
  return "unknown";
}

}  // namespace rueda
