// SPDX-License-Identifier: Apache-2.0
#include "core/control/bootstrap/ranks_of_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"

namespace rueda {

void check_ranks_of_job(const std::vector<Rank>& ranks, Rank started, Rank own) {
  const auto impossible = [&](const std::string& words) {
    rueda::refuse(fmt::format("init of the ranks [{}]: {}", fmt::join(ranks, ", "), words));
  };
  for (const Rank rank : ranks)
    if (rank < 0 || rank >= started)
      impossible(fmt::format("rank {} does not exist, {} were started", rank, started));
  if (std::set(ranks.begin(), ranks.end()).size() != ranks.size()) impossible("one of them comes twice");
  if (std::ranges::find(ranks, own) == ranks.end())
    impossible(fmt::format(
        "this process is rank {}: give it a list that it is in, or do not call init() on it", own));
}

bool are_all_ranks(const std::vector<Rank>& ranks, Rank started) {
  if (static_cast<Rank>(ranks.size()) != started) return false;
  for (Rank rank = 0; rank < started; ++rank)
    if (ranks[rank] != rank) return false;
  return true;
}

std::string condition_of_start(const std::vector<Rank>& ranks) {
  return fmt::format("the job begins when each of the ranks [{}] calls init() with this list, in this order",
                     fmt::join(ranks, ", "));
}

}  // namespace rueda
