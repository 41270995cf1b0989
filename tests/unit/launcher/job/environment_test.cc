// SPDX-License-Identifier: Apache-2.0
// Where a rank stands, from what Hydra says and the list of hosts.
#include "launcher/job/environment.h"

#include <gmock/gmock.h>

namespace rueda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Environment, SlotsOfAListOfHosts) {
  EXPECT_THAT(slots_of(""), IsEmpty());
  EXPECT_THAT(slots_of("a"), ElementsAre(1));
  EXPECT_THAT(slots_of("a:4,b,c:2"), ElementsAre(4, 1, 2));
}

TEST(Environment, OneHost) { EXPECT_EQ(place_of({2, 4, 2, 4}, {}), (Place{2, 4, 2, 4, 0, 1})); }

TEST(Environment, HostsOfDifferentSize) {
  std::vector<int> slots{2, 1, 2};  // ranks 0 1 | 2 | 3 4
  EXPECT_EQ(place_of({0, 5, 0, 2}, slots), (Place{0, 5, 0, 2, 0, 3}));
  EXPECT_EQ(place_of({2, 5, 0, 1}, slots), (Place{2, 5, 0, 1, 1, 3}));
  EXPECT_EQ(place_of({4, 5, 1, 2}, slots), (Place{4, 5, 1, 2, 1, 2})) << "only two hosts have a local rank 1";
}

TEST(Environment, MoreRanksThanSlotsStartAgainAtTheFirstHost) {
  EXPECT_EQ(place_of({2, 4, 1, 2}, {1, 1}), (Place{2, 4, 1, 2, 0, 2}));
  EXPECT_EQ(place_of({3, 4, 1, 2}, {1, 1}), (Place{3, 4, 1, 2, 1, 2}));
}

TEST(Environment, HydraIsRightWhereTheListIsNot) {
  EXPECT_EQ(place_of({3, 4, 1, 2}, {4}), (Place{3, 4, 1, 2, 1, 2})) << "block by block";
  EXPECT_EQ(place_of({3, 6, 1, 3}, {}), (Place{3, 6, 1, 3, 1, 2})) << "round robin";
}

TEST(Environment, ThreadsForEachRank) {
  int cores = threads_for_each(1);
  EXPECT_GE(cores, 1);
  EXPECT_EQ(threads_for_each(2), cores / 2 > 0 ? cores / 2 : 1);
  EXPECT_EQ(threads_for_each(100000), 1);
}

}  // namespace
}  // namespace rueda
