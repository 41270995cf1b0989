// SPDX-License-Identifier: Apache-2.0
// How chunks are cut between hosts, and who owns the slices.
#include "ops/hierarchy/slices.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/hierarchy/hierarchy_work.h"

namespace rueda {
namespace {

// Ranks 0 to 2 on one host, 3 on another, 4 and 5 on a third.
HostGroups three_hosts() { return {{{0, 1, 2}, {3}, {4, 5}}, {0, 3, 4}, 3}; }

TEST(EvenPart, PartsFollowEachOtherAndBeginWithLines) {
  for (std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 1000u, 4096u, 100001u}) {
    for (std::size_t parts : {1u, 2u, 3u, 7u, 64u}) {
      std::size_t end = 0, longest = 0;
      for (std::size_t part = 0; part < parts; ++part) {
        const auto run = even_part(bytes, part, parts);
        EXPECT_EQ(run.begin, end);
        EXPECT_TRUE(run.begin % 64 == 0 || run.begin == bytes);
        end = run.end;
        longest = std::max(longest, run.size());
      }
      EXPECT_EQ(end, bytes);
      EXPECT_LE(longest, (bytes / 64 / parts + 2) * 64);
    }
  }
}

TEST(Slices, AreAsManyAsMembersWhereMessagesStayLarge) {
  const HostGroups groups = three_hosts();
  constexpr std::size_t kChunk = 256 << 10, kMuch = 64 << 20;
  EXPECT_EQ(Slices(groups, kChunk, kMuch, 0).count(), 3u);
  EXPECT_EQ(Slices(groups, kChunk, kMuch, 2).count(), 2u);
  EXPECT_EQ(Slices(groups, 96 << 10, kMuch, 0).count(), 2u) << "messages of 16 KiB";
  EXPECT_EQ(Slices(groups, kChunk, kMuch, 64).count(), 64u) << "as is asked for";
  EXPECT_EQ(Slices(groups, 400, kMuch, 64).count(), 2u) << "lines of cache";
  EXPECT_EQ(Slices(groups, kChunk, 4, 0).count(), 1u);
  EXPECT_EQ(Slices(groups, 64, kMuch, 64).count(), 1u);
  EXPECT_EQ(Slices(groups, kChunk, 0, 0).count(), 1u);
}

// On every host one rank owns a slice, all of them see the same group, and nobody is left without.
TEST(Slices, EverySliceHasOneOwnerAHost) {
  const HostGroups groups = three_hosts();
  for (std::size_t most : {1u, 2u, 3u, 5u}) {
    const Slices slices(groups, 256 << 10, 64 << 20, most);
    std::set<Rank> busy;
    for (std::size_t chunk = 0; chunk < 6; ++chunk) {
      for (std::size_t slice = 0; slice < slices.count(); ++slice) {
        std::vector<Rank> carriers;
        for (const std::vector<Rank>& host : groups.hosts)
          carriers.push_back(host[slices.owner(chunk, slice, host.size())]);
        for (std::size_t host = 0; host < carriers.size(); ++host) {
          const Group owners = slices.owners(groups, chunk, slice, host);
          ASSERT_EQ(owners.size, 3);
          EXPECT_EQ(owners.rank_at(owners.index), carriers[host]);
          EXPECT_EQ(owners.in_order, carriers);
        }
        busy.insert(carriers.begin(), carriers.end());
      }
    }
    EXPECT_EQ(busy.size(), 6u) << most;
  }
}

// Hosts whose ranks alternate: owners stand in the order of hosts, not of ranks.
TEST(Slices, OwnersStandInTheOrderOfHosts) {
  const HostGroups groups{{{0, 3}, {1, 2}}, {0, 1}, 2};
  const Group owners = Slices(groups, 256 << 10, 64 << 20, 2).owners(groups, 0, 1, 0);
  EXPECT_EQ(owners.in_order, (std::vector<Rank>{3, 2}));
  EXPECT_EQ(owners.rank_at(owners.neighbour(1)), 2);
}

TEST(HierarchyWork, TagsHaveRoom) {
  EXPECT_LT(HierarchyWork::largest_tag(Slices::kMost), Tag{1} << 25);
  EXPECT_GT(HierarchyWork::largest_tag(1), tag_of(kPlansApart - 1));
}

}  // namespace
}  // namespace rueda
