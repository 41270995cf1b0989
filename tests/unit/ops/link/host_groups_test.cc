// SPDX-License-Identifier: Apache-2.0
// Which members of a set stand on which host.
#include "ops/link/host_groups.h"

#include <gtest/gtest.h>

#include <set>

namespace rueda {
namespace {

Plan plan_of(ProcessSetId id, RankSet members) {
  Plan plan;
  plan.process_set = id;
  plan.members = std::make_shared<const RankSet>(std::move(members));
  return plan;
}

TEST(Hosts, GroupMembersByHost) {
  Hosts hosts([](Rank) { return true; });
  hosts.set_names({"a", "b", "a", "c", "b"});
  const auto world = hosts.groups(plan_of(kWorld, RankSet(0, 5)));
  EXPECT_EQ(world->hosts, (std::vector<std::vector<Rank>>{{0, 2}, {1, 4}, {3}}));
  EXPECT_EQ(world->leaders, (std::vector<Rank>{0, 1, 3}));
  EXPECT_EQ(world->largest, 2u);
  EXPECT_EQ(world->host_of(4), 1u);
  EXPECT_EQ(world->index_of(4), 1u);
  const auto some = hosts.groups(plan_of(1, RankSet(2, 5)));
  EXPECT_EQ(some->hosts, (std::vector<std::vector<Rank>>{{2}, {3}, {4}}));
  EXPECT_EQ(some->leaders, (std::vector<Rank>{0, 3, 1})) << "of the hosts, members or not";
}

TEST(Hosts, ASetIsGroupedOnceUntilItIsAnother) {
  Hosts hosts([](Rank) { return true; });
  hosts.set_names({"a", "a", "b"});
  const Plan first = plan_of(7, RankSet(0, 2)), second = plan_of(7, RankSet(1, 3));
  const auto groups = hosts.groups(first);
  EXPECT_EQ(hosts.groups(first), groups);
  EXPECT_EQ(hosts.groups(second)->hosts, (std::vector<std::vector<Rank>>{{1}, {2}}));
  EXPECT_EQ(hosts.groups(first)->hosts, (std::vector<std::vector<Rank>>{{0, 1}}));
  for (ProcessSetId id = 0; id < 5000; ++id) EXPECT_EQ(hosts.groups(plan_of(id, RankSet(0, 3)))->largest, 2u);
}

TEST(Hosts, ShareMemoryWhereAllThatMembersStandOnDo) {
  std::set<Rank> complete{0};
  Hosts hosts([&](Rank leader) { return complete.contains(leader); });
  hosts.set_names({"a", "a", "b", "b"});
  const auto one = hosts.groups(plan_of(1, RankSet(0, 2))), both = hosts.groups(plan_of(2, RankSet(1, 4)));
  EXPECT_TRUE(hosts.share_memory(*one));
  EXPECT_FALSE(hosts.share_memory(*both));
  complete.insert(2);
  EXPECT_TRUE(hosts.share_memory(*both));
}

}  // namespace
}  // namespace rueda
