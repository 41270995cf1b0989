// SPDX-License-Identifier: Apache-2.0
#include "core/control/bootstrap/static_process_sets.h"

#include <gtest/gtest.h>

#include <numeric>

namespace rueda {
namespace {

TEST(StaticSets, WordsTellSetsApartAndStayShort) {
  EXPECT_EQ(in_words({}), "none");
  EXPECT_EQ(in_words({{}}), "[]");
  EXPECT_EQ(in_words({{3, 1, 0, 2}, {7, 2, 3}}), "[0-3], [2-3, 7]");
  EXPECT_EQ(in_words({{0, 0, 1}}), "[0, 0-1]");
  RankLists many;
  for (Rank rank = 0; rank < 10000; ++rank) many.push_back({rank, rank + 2});
  const std::string words = in_words(many);
  EXPECT_LT(words.size(), 220u);
  EXPECT_NE(words.find("(10000 sets, checksum "), std::string::npos) << words;
  many.back().back() += 1;
  EXPECT_NE(in_words(many), words);
}

TEST(StaticSets, WhatIsImpossibleIsRefusedWithARemedy) {
  const auto words = [](const RankLists& lists) { return check_static_sets(lists, 4).message; };
  EXPECT_EQ(words({{0, 1}, {3, 2}, {1}, {0, 2, 3}}), "");
  EXPECT_EQ(words({}), "");
  EXPECT_EQ(words({{0}, {}}), "init: process set 2 of 2, [], is empty; give it at least one rank.");
  EXPECT_EQ(
      words({{0, 4}}),
      "init: process set 1 of 1, [0, 4], has a rank 4, but the job has ranks 0-3; give ranks of the job.");
  EXPECT_EQ(
      words({{-1}}),
      "init: process set 1 of 1, [-1], has a rank -1, but the job has ranks 0-3; give ranks of the job.");
  EXPECT_EQ(words({{2, 1, 2}}), "init: process set 1 of 1, [1-2, 2], names rank 2 twice; name each once.");
  EXPECT_EQ(words({{0, 1}, {2}, {1, 0}}),
            "init: process set 3 of 3, [0-1], has the same members as process set 1; give it once.");
  EXPECT_EQ(
      words({{3, 2, 1, 0}}),
      "init: process set 1 of 1, [0-3], has all ranks of the job, as process set 0, which is always there; "
      "leave it out.");
  std::vector<Rank> odd(1000);
  for (std::size_t i = 0; i < odd.size(); ++i) odd[i] = static_cast<Rank>(2 * i);
  EXPECT_LT(words({odd}).size(), 300u);
}

TEST(StaticSets, MembersComeInListOrder) {
  RankSet second = RankSet::of(0);
  second.add(RankSet::of(3));
  EXPECT_EQ(members_of({{2, 1}, {3, 0}}), (std::vector<RankSet>{RankSet(1, 3), second}));
}

}  // namespace
}  // namespace rueda
