// SPDX-License-Identifier: Apache-2.0
// No host measures twice at one time, and each pair measures once.
#include "launcher/doctor/link_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace rueda {
namespace {

TEST(Tournament, HasEachPairOnceAndEachHostOnceInARound) {
  EXPECT_TRUE(tournament(0, 99).empty());
  EXPECT_TRUE(tournament(1, 99).empty());
  for (int hosts = 2; hosts <= 33; ++hosts) {
    std::set<HostPair> pairs;
    std::size_t count = 0;
    for (const Round& round : tournament(hosts, 99)) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        EXPECT_LT(a, b);
        EXPECT_TRUE(a >= 0 && b < hosts);
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second) << hosts;
        pairs.emplace(a, b);
        ++count;
      }
    }
    EXPECT_EQ(count, pairs.size());
    EXPECT_EQ(pairs.size(), static_cast<std::size_t>(hosts * (hosts - 1) / 2)) << hosts;
  }
}

TEST(Tournament, ASampleGivesEachHostAsManyOthers) {
  const std::vector<Round> rounds = tournament(100, 15);
  EXPECT_EQ(rounds.size(), 15u);
  std::map<int, std::set<int>> partners;
  for (const Round& round : rounds)
    for (const auto& [a, b] : round) partners[a].insert(b), partners[b].insert(a);
  EXPECT_EQ(partners.size(), 100u);
  for (const auto& [host, others] : partners) EXPECT_EQ(others.size(), 15u) << host;
}

}  // namespace
}  // namespace rueda
