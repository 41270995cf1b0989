// SPDX-License-Identifier: Apache-2.0
// Which ranks give the parts of a sharded optimizer after losses.
#include "frameworks/torch/sharding/held_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/words_of.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Holdings = std::vector<std::vector<Holding>>;

// What the ranks of a division hold after `lost`, where each part is on its rank and `copies` ranks after it.
Holdings after_losses(Rank ranks, Rank copies, const std::vector<Rank>& lost, std::int64_t version = 7) {
  Holdings holdings;
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (std::ranges::count(lost, rank) > 0) continue;
    std::vector<Rank> parts;
    for (Rank before = 0; before <= copies; ++before) parts.push_back((rank + ranks - before) % ranks);
    holdings.push_back({{2, ranks, version, parts}});
  }
  return holdings;
}

Sources choose(const Holdings& holdings, std::int64_t version) {
  return choose_sources(holdings, version, "sharded model");
}

TEST(SourcesOfParts, AreTheLowestRanksThatHaveThem) {
  EXPECT_EQ(choose(after_losses(3, 0, {}), 7), (Sources{2, {0, 1, 2}}));
  EXPECT_EQ(choose(after_losses(3, 1, {}), 7), (Sources{2, {0, 1, 0}}));
  EXPECT_EQ(choose(after_losses(4, 1, {1}), 7), (Sources{2, {0, 1, 1, 0}}));
}

TEST(SourcesOfParts, AreFoundAfterEveryLossThatLeavesACopy) {
  for (Rank ranks = 1; ranks <= 6; ++ranks) {
    for (Rank copies = 0; copies < ranks; ++copies) {
      for (unsigned set = 0; set + 1 < 1U << ranks; ++set) {
        std::vector<Rank> lost;
        Rank longest = 0, run = 0;  // neighbours in the ring
        for (Rank i = 0; i < 2 * ranks; ++i) {
          const bool is_lost = (set >> (i % ranks) & 1U) != 0;
          if (is_lost && i < ranks) lost.push_back(i);
          run = is_lost ? run + 1 : 0;
          longest = std::max(longest, run);
        }
        const Holdings holdings = after_losses(ranks, copies, lost);
        if (longest <= copies)
          EXPECT_EQ(std::ssize(choose(holdings, 7).givers), ranks);
        else
          EXPECT_THROW(choose(holdings, 7), InvalidArgument);
      }
    }
  }
}

TEST(SourcesOfParts, AreNamedWhereTheyAreLost) {
  const std::string words = words_of([] { choose(after_losses(5, 1, {1, 2}), 7); });
  EXPECT_THAT(words, AllOf(HasSubstr("part 1 of the 5 parts of a sharded model"), HasSubstr("after step 7"),
                           HasSubstr("from a checkpoint"), HasSubstr("part_copies")));
  EXPECT_THAT(words_of([] { choose(after_losses(3, 1, {}), 8); }), HasSubstr("after step 8"));
}

TEST(SourcesOfParts, AreOfTheNewestDivisionThatIsWhole) {
  Holdings holdings = after_losses(3, 1, {0});
  holdings[0].push_back({5, 2, 7, {0}});  // the other rank has not completed it
  EXPECT_EQ(choose(holdings, 7).division, 2);
  holdings[1].push_back({5, 2, 7, {1}});
  EXPECT_EQ(choose(holdings, 7), (Sources{5, {0, 1}}));
  holdings[1].back().version = 8;
  EXPECT_EQ(choose(holdings, 7).division, 2);
}

}  // namespace
}  // namespace rueda
