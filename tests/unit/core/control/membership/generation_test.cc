// SPDX-License-Identifier: Apache-2.0
#include "core/control/membership/generation.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

Generation of(std::uint64_t number, std::initializer_list<RankSet::Range> ranges) {
  Generation generation{number, {}};
  for (const auto& [first, end] : ranges) generation.workers.add(first, end);
  return generation;
}

TEST(Generation, IsTheSameAfterItsText) {
  for (const Generation& each :
       {of(0, {{0, 1}}), of(3, {{0, 3}, {4, 5}}), of(1ULL << 40, {{1, 2}, {3, 4}, {6, 100'000}})})
    EXPECT_EQ(generation_from(to_text(each)), each) << to_text(each);
  EXPECT_EQ(to_text(of(3, {{0, 3}, {4, 5}})), "3 3,1");
  EXPECT_EQ(to_text(of(3, {{3, 6}, {12, 14}})), "3 4~3,6~2");
}

TEST(Generation, RanksAreWorkersByAge) {
  EXPECT_EQ(of(1, {{0, 2}, {5, 6}}).by_rank(), (std::vector<Worker>{0, 1, 5}));
}

// A packet to a rank holds 32 KiB.
TEST(Generation, ThousandsOfGapsFitIntoAPacket) {
  Generation generation{1000, {}};
  for (Worker first = 0; first < 100'000; first += 50) generation.workers.add(first, first + 49);
  EXPECT_EQ(generation_from(to_text(generation)), generation);
  EXPECT_LT(to_text(generation).size(), 6100U);
}

TEST(Generation, OtherTextIsRefused) {
  for (const char* text : {"",      "3",          "3 ",           " 1",           "3 1,",          "3 0",
                           "3 -1",  "3 0~1",      "3 -1~1",       "3 2~",         "3 2~0",         "3 2~3~4",
                           "3 1,0", "3 99999999", "3 99999999~1", "3 16777216,1", "3 99999999999", "x 1",
                           "3 1 ",  "3 1;1",      "-1 1"})
    EXPECT_EQ(generation_from(text), std::nullopt) << text;
}

}  // namespace
}  // namespace rueda
