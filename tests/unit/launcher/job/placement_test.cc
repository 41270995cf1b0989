// SPDX-License-Identifier: Apache-2.0
// Which ranks run on which host.
#include "launcher/job/placement.h"

#include <gmock/gmock.h>

namespace rueda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The slot of a rank, with its host's number.
SlotInfo slot_of(const std::vector<HostRanks>& hosts, int rank) {
  for (const HostRanks& host : hosts)
    for (const SlotInfo& slot : host.ranks)
      if (slot.rank == rank) return slot;
  ADD_FAILURE() << "no rank " << rank;
  return {};
}

TEST(Placement, SlotsOfAListOfHosts) {
  EXPECT_THAT(host_slots_from(""), IsEmpty());
  EXPECT_THAT(host_slots_from("a"), ElementsAre(HostSlots{"a", 1}));
  EXPECT_THAT(host_slots_from("a:4,b,c:2"),
              ElementsAre(HostSlots{"a", 4}, HostSlots{"b", 1}, HostSlots{"c", 2}));
}

TEST(Placement, WithoutHostsAllAreHere) {
  const std::vector<HostRanks> hosts = place_ranks(4, {}, "here");
  ASSERT_EQ(hosts.size(), 1u);
  EXPECT_EQ(hosts[0].host, "here");
  EXPECT_EQ(slot_of(hosts, 2), (SlotInfo{2, 4, 2, 4, 0, 1}));
}

TEST(Placement, HostsOfDifferentSize) {
  const std::vector<HostRanks> hosts = place_ranks(5, {{"a", 2}, {"b", 1}, {"c", 2}}, "");
  EXPECT_EQ(slot_of(hosts, 0), (SlotInfo{0, 5, 0, 2, 0, 3}));
  EXPECT_EQ(slot_of(hosts, 2), (SlotInfo{2, 5, 0, 1, 1, 3}));
  EXPECT_EQ(slot_of(hosts, 4), (SlotInfo{4, 5, 1, 2, 1, 2})) << "only two hosts have a local rank 1";
  EXPECT_EQ(process_mapping(hosts), "(vector,(0,1,2),(1,1,1),(2,1,2))");
}

TEST(Placement, MoreRanksThanSlotsStartAgainAtTheFirstHost) {
  const std::vector<HostRanks> hosts = place_ranks(4, {{"a", 1}, {"b", 1}}, "");
  EXPECT_EQ(slot_of(hosts, 2), (SlotInfo{2, 4, 1, 2, 0, 2}));
  EXPECT_EQ(slot_of(hosts, 3), (SlotInfo{3, 4, 1, 2, 1, 2}));
  EXPECT_EQ(process_mapping(hosts), "(vector,(0,1,1),(1,1,1),(0,1,1),(1,1,1))");
}

TEST(Placement, AHostThatStandsTwiceIsOne) {
  const std::vector<HostRanks> hosts = place_ranks(3, {{"a", 1}, {"b", 1}, {"a", 1}}, "");
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(slot_of(hosts, 2), (SlotInfo{2, 3, 1, 2, 0, 1}));
}

TEST(Placement, HostsWithoutARankAreLeftOut) {
  const std::vector<HostRanks> hosts = place_ranks(2, {{"a", 2}, {"b", 2}}, "");
  ASSERT_EQ(hosts.size(), 1u);
  EXPECT_EQ(hosts[0].host, "a");
}

}  // namespace
}  // namespace rueda
