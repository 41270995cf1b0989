// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/scalar_curves.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace rueda {
namespace {

constexpr std::size_t kMostPoints = 2048;
constexpr std::size_t kMostTags = 256;
constexpr auto kUntilRank0 = std::chrono::seconds(2);

// As the name of another rank's curve does: "loss (rank 1)".
bool ends_with_rank(std::string_view tag) {
  constexpr std::string_view kRank = " (rank ";
  const std::size_t at = tag.rfind(kRank);
  return at != std::string_view::npos && tag.ends_with(')') &&
         tag.find_first_not_of("0123456789", at + kRank.size()) == tag.size() - 1;
}

nlohmann::json as_json(const std::vector<ScalarCurves::Point>& points) {
  nlohmann::json list = nlohmann::json::array();
  for (const ScalarCurves::Point& point : points) list.push_back({point.step, point.value});
  return list;
}

}  // namespace

void ScalarCurves::add(int rank, const agents::Observed::Curve& curve, Time now) {
  if (curves_.size() >= kMostTags && !curves_.contains(curve.tag)) return;
  const auto [found, fresh] = curves_.try_emplace(curve.tag);
  Curve& own = found->second;
  if (fresh) {
    own.rank = rank;
    own.since = now;
  }
  const bool is_ahead = !curve.points.empty() && curve.points.back().step > own.last_step;
  if (rank != own.rank && own.has_ended && is_ahead) {
    own.rank = rank;
    own.has_ended = false;
  } else if (rank < own.rank) {
    own = {.rank = rank, .since = now};
  } else if (rank != own.rank) {
    return;
  }
  for (const Point& point : curve.points) {
    own.last_step = point.step;
    own.fresh.push_back(point);
    if (own.added++ % own.stride == 0) own.points.push_back(point);
    if (own.points.size() < kMostPoints) continue;
    own.stride *= 2;
    for (std::size_t i = 0; i < kMostPoints / 2; ++i) own.points[i] = own.points[2 * i];
    own.points.resize(kMostPoints / 2);
  }
}

void ScalarCurves::note_end(int rank) {
  for (auto& [tag, curve] : curves_)
    if (curve.rank == rank) curve.has_ended = true;
}

std::string ScalarCurves::name_of(const std::string& tag, const Curve& curve) {
  return curve.rank == 0 && !ends_with_rank(tag) ? tag : fmt::format("{} (rank {})", tag, curve.rank);
}

nlohmann::json ScalarCurves::take_new(Time now) {
  nlohmann::json list = nlohmann::json::object();
  for (auto& [tag, curve] : curves_) {
    if (curve.rank == 0 || now >= curve.since + kUntilRank0) curve.is_shown = true;
    if (!curve.is_shown || curve.fresh.empty()) continue;
    list[name_of(tag, curve)] = as_json(std::exchange(curve.fresh, {}));
  }
  return list;
}

nlohmann::json ScalarCurves::all() const {
  nlohmann::json list = nlohmann::json::object();
  for (const auto& [tag, curve] : curves_)
    if (curve.is_shown) list[name_of(tag, curve)] = as_json(curve.points);
  return list;
}

std::vector<ScalarCurves::LastValue> ScalarCurves::last_values() const {
  std::vector<LastValue> values;
  for (const auto& [tag, curve] : curves_)
    if (!curve.points.empty()) values.push_back({tag, curve.rank, curve.points.back().value});
  return values;
}

}  // namespace rueda
