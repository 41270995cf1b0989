// SPDX-License-Identifier: Apache-2.0
#include "core/control/autotune/step_detector.h"

#include <utility>

#include "core/base/operation_traits.h"

namespace rueda {
namespace {

// Of a step: to replay a larger one would hold the background thread up.
constexpr std::size_t kMostTensors = 1 << 13;

// Operations without a name of their own are numbered through the whole job: the number does not count.
std::string_view without_number(std::string_view name) {
  const std::size_t end = name.find_last_not_of("0123456789");
  return end == std::string_view::npos || name[end] != '.' ? name : name.substr(0, end);
}

std::uint64_t mixed(std::uint64_t value) {
  value ^= value >> 31;
  value *= 0x9e3779b97f4a7c15u;
  return value ^ (value >> 29);
}

std::uint64_t mark_of(const Request& request) {
  const std::uint64_t name = std::hash<std::string_view>()(without_number(request.name));
  const auto bytes = static_cast<std::uint64_t>(bytes_of(request));
  std::uint64_t mark = mixed(name ^ mixed(bytes * 16 + static_cast<std::uint64_t>(request.dtype)));
  for (const Request& other : request.others) mark += mark_of(other);
  return mark;
}

}  // namespace

std::optional<StepDetector::Step> StepDetector::ready(const SharedRequest& request, Time now) {
  if (!traits(request->operation).fusable || request->process_set != kWorld) return std::nullopt;
  std::optional<Step> ended;
  if (names_.contains(key_view_of(*request))) {
    if (whole_) ended = Step{pattern_, now - begun_, std::move(trace_)};
    begin(now);
    whole_ = true;
  } else if (tensors_ >= kMostTensors || trace_.arrivals.empty()) {
    begin(now);
    whole_ = false;
  }
  if (std::exchange(looked_, false)) trace_.arrivals.push_back({now - begun_, false, {}});
  trace_.arrivals.back().requests.push_back(request);
  names_.insert(key_view_of(*request));
  tensors_ += 1 + request->others.size();
  pattern_ += mark_of(*request);
  return ended;
}

void StepDetector::begin(Time now) {
  names_.clear();
  tensors_ = 0;
  trace_ = {};
  pattern_ = 0;
  begun_ = now;
  looked_ = true;
}

void StepDetector::looked(bool others_on_their_way) {
  if (std::exchange(looked_, true)) return;
  trace_.arrivals.back().others_on_their_way = others_on_their_way;
}

}  // namespace rueda
