// SPDX-License-Identifier: Apache-2.0
// Tables of the runs, of their results and of their time.
#include <fmt/format.h>

#include <algorithm>

#include "examples/04_report/html_text.h"
#include "examples/04_report/sections.h"
#include "examples/04_report/table.h"

namespace rueda::examples::report {
namespace {

std::string or_none(const std::optional<double>& value) { return value ? number_words(*value) : ""; }

// How training went is no result of evaluation.
bool is_training_loss(const std::string& key) { return key == "loss_first" || key == "loss_last"; }

// Keys of all results, in the order of their columns.
std::vector<std::string> result_keys(const Runs& runs) {
  std::vector<std::string> keys;
  for (const RunRecord* run : runs) {
    for (const auto& [key, value] : run->results) {
      if (!is_training_loss(key) && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  std::ranges::stable_sort(keys, {}, metric_order);
  return keys;
}

// Marks the best of a column if runs differ in it. Values from before training and counts are not marked.
void mark_best(Table& table, std::size_t column, const Runs& runs, const std::string& key) {
  if (key.ends_with("_first") || key == "tokens" || key == "samples") return;
  std::optional<double> best, worst;
  const double sign = higher_is_better(key) ? 1 : -1;
  for (const RunRecord* run : runs) {
    if (const std::optional<double> value = run->result(key)) {
      best = std::max(best.value_or(*value * sign), *value * sign);
      worst = std::min(worst.value_or(*value * sign), *value * sign);
    }
  }
  if (!best || *best == *worst) return;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    const std::optional<double> value = runs[row]->result(key);
    table.rows[row][column].best = value && *value * sign == *best;
  }
}

struct Part {
  const char* css_class;
  const char* name;
  std::optional<double> RunRecord::*time;
};

constexpr Part kParts[] = {{"data", "reading data", &RunRecord::data_ms},
                           {"compute", "computing", &RunRecord::compute_ms},
                           {"wait", "waiting for reduction", &RunRecord::wait_ms}};

double split_sum(const RunRecord& run) {
  double sum = 0;
  for (const Part& part : kParts) sum += (run.*part.time).value_or(0);
  return sum;
}

std::string bar_html(const RunRecord& run, double longest) {
  std::string bar, words;
  for (const Part& part : kParts) {
    const std::optional<double>& time = run.*part.time;
    if (!time) continue;
    bar += fmt::format("<span class=\"part {}\" style=\"width:{:.3f}%\" title=\"{}: {} ms\"></span>",
                       part.css_class, *time / longest * 100, part.name, number_words(*time));
    words += fmt::format("{}{} {}", words.empty() ? "" : " · ", part.css_class, number_words(*time));
  }
  return fmt::format(
      "<div class=\"bar-name\">{}</div><div class=\"bar\" aria-hidden=\"true\">{}</div>"
      "<div class=\"bar-words\">{} ms</div>\n",
      escaped(run.label), bar, words);
}

std::string schedule_words(const RunRecord& run) {
  return run.passes == 1 ? run.sync : fmt::format("{}, {} passes", run.sync, run.passes);
}

}  // namespace

std::string overview_section(const Runs& runs) {
  // Programs that only evaluate have results, and no steps.
  if (std::ranges::none_of(runs, [](const RunRecord* run) { return run->steps.has_value(); })) return {};
  const bool hosts_matter = std::ranges::any_of(runs, [](const RunRecord* run) { return run->hosts > 1; });
  Table table{.titles = {"Run", "Ranks", "Hosts", "Device", "Synchronisation", "Optimizer", "Steps",
                         "Samples/s", "Step (ms)", "Time", "Loss, first steps", "Loss, last steps",
                         "Stopped by"}};
  for (const RunRecord* run : runs) {
    table.rows.push_back({{run->label},
                          {fmt::format("{}", run->ranks)},
                          {hosts_matter ? fmt::format("{}", run->hosts) : ""},
                          {run->device},
                          {schedule_words(*run)},
                          {run->optimizer},
                          {run->steps ? fixed_words(static_cast<double>(*run->steps), 0) : ""},
                          {or_none(run->samples_per_s)},
                          {or_none(run->step_ms)},
                          {run->seconds ? duration_words(*run->seconds) : ""},
                          {or_none(run->result("loss_first"))},
                          {or_none(run->result("loss_last"))},
                          {run->stopped}});
  }
  return "<section>\n<h3>Runs</h3>\n" + table_html(table) + "</section>\n";
}

std::string results_section(const Runs& runs) {
  const std::vector<std::string> keys = result_keys(runs);
  if (keys.empty()) return {};
  Table table{.titles = {"Run"}};
  for (const std::string& key : keys) table.titles.push_back(metric_words(key));
  for (const RunRecord* run : runs) {
    std::vector<Cell>& row = table.rows.emplace_back(1, Cell{run->label});
    for (const std::string& key : keys) row.push_back({or_none(run->result(key))});
  }
  for (std::size_t column = 0; column < keys.size(); ++column)
    mark_best(table, column + 1, runs, keys[column]);
  return "<section>\n<h3>Results</h3>\n" + table_html(table) + "</section>\n";
}

std::string split_section(const Runs& runs) {
  double longest = 0;
  Runs without_data;
  for (const RunRecord* run : runs) {
    longest = std::max(longest, split_sum(*run));
    if (split_sum(*run) > 0 && !run->data_ms) without_data.push_back(run);
  }
  if (longest <= 0) return {};
  std::string html = "<section>\n<h3>Where a step's time goes</h3>\n<ul class=\"legend\">";
  for (const Part& part : kParts)
    html += fmt::format("<li><span class=\"swatch {}\"></span>{}</li>", part.css_class, part.name);
  html += "</ul>\n<div class=\"bars\">\n";
  for (const RunRecord* run : runs) {
    if (split_sum(*run) > 0) html += bar_html(*run, longest);
  }
  html += "</div>\n<p class=\"note\">Milliseconds, medians over steps, means over ranks.";
  if (std::ranges::any_of(runs, [](const RunRecord* run) { return batches_per_sync(*run).value_or(1) > 1; }))
    html += " What is waited for only once in several batches hardly moves a median.";
  if (!without_data.empty())
    html += " Reading data was not measured by itself, and is part of computing, in: " +
            escaped(names_of(without_data)) + ".";
  return html + "</p>\n</section>\n";
}

}  // namespace rueda::examples::report
