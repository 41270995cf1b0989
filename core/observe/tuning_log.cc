// SPDX-License-Identifier: Apache-2.0
#include "core/observe/tuning_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "core/base/log.h"

namespace rueda {
namespace {

constexpr std::string_view kHeader =
    "pattern,search,state,sample,fusion_threshold,linger_ms,chunk_bytes,route_bytes,measured_ms,words\n";

std::string number(std::optional<double> milliseconds) {
  return milliseconds ? fmt::format("{:.4f}", *milliseconds) : std::string();
}

std::string line_of(const TuningRecord& record) {
  const TuningParameters& parameters = record.parameters;
  const std::string route = parameters.route_bytes == TuningParameters::kUnlimited
                                ? "inf"
                                : fmt::format("{}", parameters.route_bytes);
  // The words hold no quotes.
  return fmt::format("{},{},{},{},{},{},{},{},{},\"{}\"\n", record.pattern, record.search, record.state,
                     record.sample, parameters.fusion_threshold, in_milliseconds(parameters.linger),
                     parameters.chunk_bytes, route, number(record.measured_ms), record.words);
}

}  // namespace

Status TuningLog::open(const std::string& path) {
  path_ = path;
  file_.reset(std::fopen(path.c_str(), "we"));
  if (file_ && std::fwrite(kHeader.data(), 1, kHeader.size(), file_.get()) == kHeader.size() &&
      std::fflush(file_.get()) == 0)
    return {};
  const int reason = errno;
  file_.reset();
  return Status::invalid_argument(fmt::format(
      "cannot write '{}': {}. The job goes on without; name a file in a folder that exists and can be "
      "written.",
      path, std::strerror(reason)));
}

void TuningLog::write(const TuningRecord& record) {
  if (record.state == "verdict") log(LogLevel::info, "autotune: {}", record.words);
  if (!file_) return;
  const std::string line = line_of(record);
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() && std::fflush(file_.get()) == 0)
    return;
  log(LogLevel::warning, "autotune: cannot write '{}': {}; no more is written there", path_,
      std::strerror(errno));
  file_.reset();
}

}  // namespace rueda
