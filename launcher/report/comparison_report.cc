// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "launcher/report/report_words.h"
#include "launcher/report/sections.h"

namespace rueda::report {
namespace {

using nlohmann::json;

std::string count_words(std::size_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

// Tasks in the order in which they come first.
std::vector<Runs> by_task(const std::vector<RunRecord>& records) {
  std::vector<Runs> groups;
  for (const RunRecord& record : records) {
    const auto found =
        std::ranges::find_if(groups, [&](const Runs& group) { return group.front()->task == record.task; });
    Runs& group = found == groups.end() ? groups.emplace_back() : *found;
    group.push_back(&record);
  }
  return groups;
}

// The best of the runs, if they differ: its value, and the runs that have it.
json best_of(const Runs& runs, const std::string& name, bool higher, auto value_of) {
  std::optional<double> best, worst;
  const double sign = higher ? 1 : -1;
  for (const RunRecord* run : runs) {
    const std::optional<double> value = value_of(*run);
    if (!value) continue;
    best = std::max(best.value_or(*value * sign), *value * sign);
    worst = std::min(worst.value_or(*value * sign), *value * sign);
  }
  if (!best || *best == *worst) return nullptr;
  Runs winners;
  for (const RunRecord* run : runs)
    if (const std::optional<double> value = value_of(*run); value && *value * sign == *best)
      winners.push_back(run);
  constexpr std::size_t kMostNames = 2;
  const std::string note =
      winners.size() <= kMostNames ? names_of(winners) : count_words(winners.size(), "run");
  return {{"name", name}, {"text", number_words(*best * sign)}, {"note", note}};
}

json figures_of(const Runs& runs) {
  json figures = json::array({{{"name", "runs"}, {"text", fmt::format("{}", runs.size())}, {"note", ""}}});
  const std::string quality = quality_key(runs);
  std::vector<json> best = {
      best_of(runs, "fastest, samples/s", true, [](const RunRecord& run) { return run.samples_per_s; }),
      best_of(runs, "shortest wait of a step, ms", false,
              [](const RunRecord& run) { return run.ranks > 1 ? run.wait_ms : std::nullopt; })};
  if (!quality.empty())
    best.insert(best.begin() + 1,
                best_of(runs, fmt::format("best {}", metric_words(quality)), higher_is_better(quality),
                        [&](const RunRecord& run) { return run.result(quality); }));
  for (json& figure : best)
    if (!figure.is_null()) figures.push_back(std::move(figure));
  return figures;
}

json task_of(const Runs& runs) {
  json sections = json::array();
  for (json section : {overview_section(runs), results_section(runs), training_section(runs),
                       scaling_section(runs), sync_section(runs), split_section(runs)})
    if (!section.is_null()) sections.push_back(std::move(section));
  return {{"title", task_words(runs.front()->task)},
          {"figures", figures_of(runs)},
          {"sections", std::move(sections)}};
}

}  // namespace

json comparison_of(const std::vector<RunRecord>& records) {
  json tasks = json::array();
  for (const Runs& group : by_task(records)) tasks.push_back(task_of(group));
  const std::string title =
      fmt::format("{} of {}", count_words(records.size(), "run"), count_words(tasks.size(), "task"));
  return {{"title", title}, {"tasks", std::move(tasks)}, {"published", published_section()}};
}

}  // namespace rueda::report
