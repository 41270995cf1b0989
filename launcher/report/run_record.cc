// SPDX-License-Identifier: Apache-2.0
// Summaries to records. Each key is checked where it is read, for a page must not show a mistaken number.
#include "launcher/report/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "launcher/report/summary_file.h"

namespace rueda::report {
namespace {

using nlohmann::json;

// Numbers that are no results.
const std::set<std::string> kNoResults = {"ranks",
                                          "hosts",
                                          "local_ranks",
                                          "steps",
                                          "resumed_from",
                                          "backward_passes_per_step",
                                          "samples_per_step",
                                          "batch",
                                          "max_length",
                                          "warmup",
                                          "learning_rate",
                                          "subset",
                                          "seed",
                                          "parameters",
                                          "seconds",
                                          "samples_per_s",
                                          "step_ms",
                                          "data_ms",
                                          "compute_ms",
                                          "wait_ms",
                                          "cpu_ms",
                                          "reduced_mb"};

constexpr double kLeastSize = 1e-150, kMostSize = 1e150;  // of a number
constexpr std::size_t kMostMeasures = 100;                // each has a chart

// A value as the message shows it: never long.
std::string words_of(const json& value) {
  constexpr std::size_t kMost = 40;
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  std::string text = value.dump(-1, ' ', true);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

// Reads the keys of one object; `source` is the file, or the file and a position in it.
class KeyReader {
 public:
  KeyReader(const json& object, std::string source) : object_(object), source_(std::move(source)) {}

  [[noreturn]] void fail(const std::string& key, const json& value, const char* must) const {
    throw std::runtime_error(
        fmt::format("{}: '{}' is {}; it must be {}", source_, key, words_of(value), must));
  }

  std::string text(const std::string& key) const {
    const json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) fail(key, *value, "a string");
    return value->get<std::string>();
  }

  std::optional<std::int64_t> whole(const std::string& key, std::int64_t least) const {
    const json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer() || value->get<double>() < static_cast<double>(least) ||
        value->get<double>() > 9e15)
      fail(key, *value, least > 0 ? "a whole number of at least 1" : "a whole number of at least 0");
    return value->get<std::int64_t>();
  }

  std::optional<double> time(const std::string& key) const {
    const json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number() || value->get<double>() < 0) fail(key, *value, "a number of at least 0");
    return number(key, *value);
  }

  // Ratios of such numbers are numbers, too.
  double number(const std::string& key, const json& value) const {
    const double size = std::abs(value.get<double>());
    if (size != 0 && !(size >= kLeastSize && size <= kMostSize))
      fail(key, value, "0, or between 1e-150 and 1e150 in size");
    return value.get<double>();
  }

 private:
  // Trainers write null for an absent value.
  const json* find(const std::string& key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  const json& object_;
  std::string source_;
};

MetricCurves read_curves(const json& summary, const std::string& key, const std::string& path) {
  MetricCurves curves;
  const auto found = summary.find(key);
  if (found == summary.end() || found->is_null()) return curves;
  if (!found->is_array())
    throw std::runtime_error(
        fmt::format("{}: '{}' is {}; it must be a list of points", path, key, words_of(*found)));
  for (std::size_t index = 0; index < found->size(); ++index) {
    const json& entry = (*found)[index];
    const std::string source = fmt::format("{}: {}[{}]", path, key, index);
    if (!entry.is_object())
      throw std::runtime_error(fmt::format(
          "{} is {}; it must be an object such as {{\"step\": 1, \"loss\": 2.5}}", source, words_of(entry)));
    const KeyReader reader(entry, source);
    const std::optional<std::int64_t> step = reader.whole("step", 0);
    if (!step) throw std::runtime_error(fmt::format("{} has no 'step'", source));
    const std::optional<double> seconds = reader.time("seconds");
    for (const auto& [name, value] : entry.items()) {
      if (name == "step" || name == "seconds" || !value.is_number()) continue;
      curves[name].push_back({static_cast<double>(*step), seconds, reader.number(name, value)});
    }
    if (curves.size() > kMostMeasures)
      throw std::runtime_error(fmt::format("{}: '{}' has more than {} measures", path, key, kMostMeasures));
  }
  for (auto& [name, points] : curves) std::ranges::stable_sort(points, {}, &MetricPoint::step);
  return curves;
}

// Trainers write the speed since the point before, from which the time follows.
void add_seconds(MetricCurves& curves, std::optional<double> samples_per_step) {
  const auto speeds = curves.find("samples_per_s");
  if (!samples_per_step || speeds == curves.end()) return;
  std::map<double, double> seconds_at;  // by step
  double step = 0, seconds = 0;
  for (const MetricPoint& point : speeds->second) {
    if (!(point.value > 0)) return;
    seconds += (point.step - step) * *samples_per_step / point.value;
    step = point.step;
    seconds_at[step] = seconds;
  }
  for (auto& [name, points] : curves) {
    for (MetricPoint& point : points) {
      const auto found = seconds_at.find(point.step);
      if (!point.seconds && found != seconds_at.end()) point.seconds = found->second;
    }
  }
}

std::string task_of(const json& summary, const KeyReader& reader, const std::string& path) {
  std::string task = reader.text("task");
  if (!task.empty()) return task;
  if (summary.contains("perplexity") || summary.contains("pseudo_perplexity")) return "evaluate_lm";
  throw std::runtime_error(fmt::format("{} has no 'task'; give the summary.json that a trainer wrote", path));
}

// The last `count` folders of the path of a summary, or all.
std::string path_words(const std::filesystem::path& path, std::size_t count) {
  std::filesystem::path whole = path.filename() == "summary.json"
                                    ? std::filesystem::absolute(path).parent_path()
                                    : path.parent_path() / path.stem();
  const std::vector<std::filesystem::path> parts(whole.begin(), whole.end());
  std::filesystem::path words;
  for (std::size_t index = parts.size() - std::min(count, parts.size()); index < parts.size(); ++index)
    words /= parts[index];
  return words.string();
}

}  // namespace

std::optional<double> RunRecord::result(const std::string& key) const {
  const auto found = std::ranges::find(results, key, &std::pair<std::string, double>::first);
  return found == results.end() ? std::nullopt : std::optional(found->second);
}

RunRecord record_of(const json& summary, const std::filesystem::path& path) {
  if (!summary.is_object())
    throw std::runtime_error(fmt::format("{} holds {}; give the summary.json that a trainer wrote",
                                         path.string(), words_of(summary)));
  const KeyReader reader(summary, path.string());
  RunRecord record;
  record.path = path;
  record.task = task_of(summary, reader, path.string());
  record.ranks = reader.whole("ranks", 1).value_or(1);
  record.hosts = reader.whole("hosts", 1).value_or(1);
  record.passes = reader.whole("backward_passes_per_step", 1).value_or(1);
  record.steps = reader.whole("steps", 0);
  record.sync = reader.text("sync");
  record.optimizer = reader.text("optimizer");
  record.device = reader.text("device");
  record.stopped = reader.text("stopped");
  record.seconds = reader.time("seconds");
  record.samples_per_s = reader.time("samples_per_s");
  record.step_ms = reader.time("step_ms");
  record.data_ms = reader.time("data_ms");
  record.compute_ms = reader.time("compute_ms");
  record.wait_ms = reader.time("wait_ms");
  for (const auto& [key, value] : summary.items()) {
    if (value.is_number() && !kNoResults.contains(key))
      record.results.emplace_back(key, reader.number(key, value));
  }
  record.curve = read_curves(summary, "curve", path.string());
  add_seconds(record.curve, reader.time("samples_per_step"));
  record.evaluations = read_curves(summary, "evaluations", path.string());
  return record;
}

RunRecord read_record(const std::filesystem::path& path) { return record_of(read_summary(path), path); }

void name_records(std::vector<RunRecord>& records, const std::vector<std::string>& names) {
  constexpr std::size_t kDeepest = 8;
  for (std::size_t index = 0; index < records.size(); ++index)
    records[index].label = names.empty() ? "" : names[index];
  for (std::size_t count = 1; names.empty() && count <= kDeepest; ++count) {
    std::map<std::string, std::vector<RunRecord*>> by_words;
    for (RunRecord& record : records) by_words[path_words(record.path, count)].push_back(&record);
    for (const auto& [words, alike] : by_words)
      if (alike.size() == 1 && alike.front()->label.empty()) alike.front()->label = words;
  }
  for (std::size_t index = 0; names.empty() && index < records.size(); ++index)
    if (records[index].label.empty())
      records[index].label = fmt::format("{} ({})", path_words(records[index].path, 1), index + 1);
}

}  // namespace rueda::report
