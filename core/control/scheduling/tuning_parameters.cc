// SPDX-License-Identifier: Apache-2.0
#include "core/control/scheduling/tuning_parameters.h"

#include <fmt/format.h>

#include <vector>

namespace rueda {
namespace {

std::string bytes_in_words(std::int64_t bytes) {
  if (bytes == TuningParameters::kUnlimited) return "any size";
  if (bytes > 0 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes > 0 && bytes % 1024 == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} bytes", bytes);
}

}  // namespace

double in_milliseconds(Duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

std::string difference(const TuningParameters& from, const TuningParameters& to) {
  std::vector<std::string> parts;
  if (from.fusion_threshold != to.fusion_threshold) {
    parts.push_back(fmt::format("fusion threshold {} instead of {}", bytes_in_words(to.fusion_threshold),
                                bytes_in_words(from.fusion_threshold)));
  }
  if (from.linger != to.linger) {
    parts.push_back(
        fmt::format("linger {} instead of {} ms", in_milliseconds(to.linger), in_milliseconds(from.linger)));
  }
  if (from.chunk_bytes != to.chunk_bytes) {
    parts.push_back(fmt::format("chunk {} instead of {}", bytes_in_words(to.chunk_bytes),
                                bytes_in_words(from.chunk_bytes)));
  }
  if (from.route_bytes != to.route_bytes) {
    parts.push_back(fmt::format("first route up to {} instead of {}", bytes_in_words(to.route_bytes),
                                bytes_in_words(from.route_bytes)));
  }
  return parts.empty() ? "nothing changed" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace rueda
