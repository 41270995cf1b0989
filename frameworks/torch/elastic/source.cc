// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/source.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"

namespace rueda::elastic {
namespace {

std::optional<Rank> most_commits(const std::vector<Report>& reports, Condition condition) {
  std::optional<Rank> source;
  for (Rank rank = 0; rank < static_cast<Rank>(reports.size()); ++rank) {
    const Report& report = reports[rank];
    if (report.condition == condition && (!source || report.commits > reports[*source].commits))
      source = rank;
  }
  return source;
}

}  // namespace

Choice choose(const std::vector<Report>& reports) {
  for (const Condition condition : {Condition::whole, Condition::ahead}) {
    const std::optional<Rank> source = most_commits(reports, condition);
    if (!source) continue;
    const bool same = std::ranges::all_of(reports, [&](const Report& each) {
      return each.condition == Condition::whole && each.commits == reports[*source].commits &&
             each.as_committed;
    });
    return {*source, !same};
  }
  if (std::ranges::any_of(reports, [](const Report& each) { return each.condition == Condition::torn; })) {
    refuse(
        "the state of the training is lost: the ranks that had it are gone, and those that are left had "
        "received a part of it only. Start the job again, from a checkpoint.");
  }
  return {0, true};
}

}  // namespace rueda::elastic
