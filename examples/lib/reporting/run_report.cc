// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/reporting/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <system_error>

namespace rueda::examples {
namespace {

constexpr std::size_t kMeanOver = 5;

std::optional<double> mean(std::vector<double>::const_iterator begin, std::size_t count) {
  if (count == 0) return std::nullopt;
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), 0.0) / static_cast<double>(count);
}

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
  throw std::runtime_error(
      fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(errno)));
}

std::string summary_name(const std::string& metric) { return metric == "loss" ? "loss_held_out" : metric; }

nlohmann::ordered_json metric_at(const EvaluationPoint* point, const std::string& name) {
  if (point == nullptr) return nullptr;
  for (const auto& [key, value] : point->metrics) {
    if (key == name) return value;
  }
  return nullptr;
}

// The last of each, and the main one as it was before the first step.
void add_metrics(nlohmann::ordered_json& json, const RunSummary& summary) {
  const auto& points = summary.evaluations;
  const EvaluationPoint* first = !points.empty() && points.front().step == 0 ? &points.front() : nullptr;
  const EvaluationPoint* last =
      !points.empty() && points.back().step == summary.steps ? &points.back() : nullptr;
  for (const std::string& name : summary.metrics) {
    if (name == summary.metrics.front()) json[summary_name(name) + "_first"] = metric_at(first, name);
    json[summary_name(name)] = metric_at(last, name);
  }
}

nlohmann::ordered_json membership_of(const RunSummary& summary) {
  if (!summary.membership) return nullptr;
  return {{"generations", summary.membership->generations},
          {"lost", summary.membership->lost},
          {"joined", summary.membership->joined},
          {"seconds_standing_still", summary.membership->seconds_standing_still}};
}

}  // namespace

void make_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    throw std::runtime_error(
        fmt::format("cannot create the folder {}: {}", folder.string(), failure.message()));
}

void check_writable(const std::filesystem::path& path) {
  if (path.has_parent_path()) make_folder(path.parent_path());
  std::error_code ignored;
  const bool existed = std::filesystem::exists(path, ignored);
  std::ofstream stream(path, std::ios::app);
  if (!stream) cannot_write(path);
  stream.close();
  if (!existed) std::filesystem::remove(path, ignored);
}

std::optional<double> first_mean(const std::vector<double>& losses) {
  return mean(losses.begin(), std::min(kMeanOver, losses.size()));
}

std::optional<double> last_mean(const std::vector<double>& losses) {
  const std::size_t count = std::min(kMeanOver, losses.size());
  return mean(losses.end() - static_cast<std::ptrdiff_t>(count), count);
}

void write_summary(const std::filesystem::path& path, const RunSummary& summary) {
  using Json = nlohmann::ordered_json;
  Json json = {{"task", summary.task},
               {"ranks", summary.ranks},
               {"hosts", summary.hosts},
               {"steps", summary.steps},
               {"samples_per_step", summary.samples_per_step},
               {"backward_passes_per_step", summary.backward_passes_per_step},
               {"sync", summary.sync},
               {"optimizer", summary.optimizer},
               {"device", summary.device},
               {"stopped", summary.stopped ? Json(*summary.stopped) : Json(nullptr)},
               {"resumed_from", summary.resumed_from ? Json(*summary.resumed_from) : Json(nullptr)},
               {"membership", membership_of(summary)},
               {"loss_first", or_null(summary.loss_first)},
               {"loss_last", or_null(summary.loss_last)}};
  add_metrics(json, summary);
  json.update(Json{{"samples_per_s", or_null(summary.samples_per_s)},
                   {"step_ms", or_null(summary.step_ms)},
                   {"data_ms", or_null(summary.data_ms)},
                   {"compute_ms", or_null(summary.compute_ms)},
                   {"wait_ms", or_null(summary.wait_ms)},
                   {"cpu_ms", or_null(summary.cpu_ms)},
                   {"reduced_mb", or_null(summary.reduced_mb)},
                   {"seconds", summary.seconds},
                   {"parameters_hash", summary.parameters_hash},
                   {"curve", Json::array()},
                   {"evaluations", Json::array()}});
  for (const CurvePoint& point : summary.curve) {
    Json entry = {{"step", point.step},
                  {"loss", point.loss},
                  {"learning_rate", point.learning_rate},
                  {"samples_per_s", point.samples_per_s}};
    for (const auto& [name, value] : point.parts) entry[name] = value;
    json["curve"].push_back(std::move(entry));
  }
  for (const EvaluationPoint& point : summary.evaluations) {
    Json entry = {{"step", point.step}};
    for (const auto& [name, value] : point.metrics) entry[name] = value;
    json["evaluations"].push_back(std::move(entry));
  }
  write_report(path, json);
}

std::string as_utf8(const std::string& text) {
  using Json = nlohmann::json;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  if (path.has_parent_path()) make_folder(path.parent_path());
  std::ofstream stream(path);
  stream << text << std::flush;
  if (!stream) cannot_write(path);
}

void write_report(const std::filesystem::path& path, const nlohmann::ordered_json& report) {
  write_text(path, report.dump(2) + "\n");
}

void write_losses(const std::filesystem::path& path, const std::vector<double>& losses) {
  std::string lines;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    lines += nlohmann::ordered_json{{"step", step}, {"loss", losses[step]}}.dump() + "\n";
  }
  write_text(path, lines);
}

}  // namespace rueda::examples
