// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/show/run_report.h"

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

void write(const std::filesystem::path& path, const std::string& text) {
  if (path.has_parent_path()) make_folder(path.parent_path());
  std::ofstream stream(path);
  stream << text << std::flush;
  if (!stream) cannot_write(path);
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
  std::ofstream stream(path, std::ios::app);
  if (!stream) cannot_write(path);
}

std::optional<double> first_mean(const std::vector<double>& losses) {
  return mean(losses.begin(), std::min(kMeanOver, losses.size()));
}

std::optional<double> last_mean(const std::vector<double>& losses) {
  const std::size_t count = std::min(kMeanOver, losses.size());
  return mean(losses.end() - static_cast<std::ptrdiff_t>(count), count);
}

void write_summary(const std::filesystem::path& path, const RunSummary& summary) {
  const nlohmann::ordered_json json = {{"task", summary.task},
                                       {"ranks", summary.ranks},
                                       {"steps", summary.steps},
                                       {"sync", summary.sync},
                                       {"loss_first", or_null(summary.loss_first)},
                                       {"loss_last", or_null(summary.loss_last)},
                                       {"f1_first", or_null(summary.f1_first)},
                                       {"f1", summary.f1},
                                       {"exact_match", summary.exact_match},
                                       {"loss_held_out", summary.loss_held_out},
                                       {"samples_per_s", or_null(summary.samples_per_s)},
                                       {"step_ms", or_null(summary.step_ms)},
                                       {"compute_ms", or_null(summary.compute_ms)},
                                       {"wait_ms", or_null(summary.wait_ms)},
                                       {"cpu_ms", or_null(summary.cpu_ms)},
                                       {"reduced_mb", or_null(summary.reduced_mb)},
                                       {"parameters_hash", summary.parameters_hash}};
  write(path, json.dump(2) + "\n");
}

void write_losses(const std::filesystem::path& path, const std::vector<double>& losses) {
  std::string lines;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    lines += nlohmann::ordered_json{{"step", step}, {"loss", losses[step]}}.dump() + "\n";
  }
  write(path, lines);
}

}  // namespace rueda::examples
