// SPDX-License-Identifier: Apache-2.0
// The Plans of a job: their routes, and the times that they take.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "launcher/protocol/observation.h"

namespace rueda {

// Purpose: all that a rank has told of its Plans. A plain value; times are of its host's clock.
struct RankPlans {
  // A Route of its page. `before` is from some seconds before the last news.
  struct Route {
    RouteKind kind;
    RouteCount count, before;
    std::int64_t at_ns = 0, before_ns = 0;
  };

  void hear(const agents::Observed& news);
  bool empty() const { return routes.empty() && settings.fusion_threshold == 0; }

  PlanSettings settings;
  std::uint64_t uncounted = 0;
  std::map<std::uint32_t, Route> routes;
  std::int64_t heard_ns = 0;
};

// The Plans of one kind, of all ranks. A plain value.
struct PlanSum {
  RouteKind kind;
  int ranks = 0;  // that have carried out some
  RouteCount count;
  RouteCount recent;          // in the last seconds
  double recent_seconds = 0;  // of all ranks; 0: none has been carried out
};

// The most time first.
std::vector<PlanSum> sums_of(const std::vector<const RankPlans*>& ranks);
// "shared memory, in place, and TCP, ring".
std::string route_in_words(const RouteKind& kind);
// "0 B", "1 MiB": the most bytes of a size class.
std::string size_in_words(std::uint8_t size_class);
// Rank 0, which decides, comes first. Null if no rank has told of its Plans.
nlohmann::json plan_as_json(const std::vector<const RankPlans*>& ranks);
// As a table, from that JSON.
std::string plan_text(const nlohmann::json& plan);

}  // namespace rueda
