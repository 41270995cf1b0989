// SPDX-License-Identifier: Apache-2.0
// Lists of ranks for init(), possible and impossible.
#include "core/control/bootstrap/ranks_of_job.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace rueda {
namespace {

std::string refusal_of(const std::vector<Rank>& ranks, Rank own) {
  try {
    check_ranks_of_job(ranks, 3, own);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(RanksOfJob, AnyOrderIsPossible) {
  EXPECT_EQ(refusal_of({2, 0}, 0), "");
  EXPECT_EQ(refusal_of({0, 1, 2}, 2), "");
  EXPECT_EQ(refusal_of({1}, 1), "");
}

TEST(RanksOfJob, ImpossibleListsAreRefusedInWords) {
  EXPECT_EQ(refusal_of({0, 3}, 0), "init of the ranks [0, 3]: rank 3 does not exist, 3 were started");
  EXPECT_EQ(refusal_of({-1, 0}, 0), "init of the ranks [-1, 0]: rank -1 does not exist, 3 were started");
  EXPECT_EQ(refusal_of({1, 0, 1}, 0), "init of the ranks [1, 0, 1]: one of them comes twice");
  EXPECT_EQ(refusal_of({1, 2}, 0),
            "init of the ranks [1, 2]: this process is rank 0: give it a list that it is in, or do not call "
            "init() on it");
}

TEST(RanksOfJob, AllInTheirOrder) {
  EXPECT_TRUE(are_all_ranks({0, 1, 2}, 3));
  for (const std::vector<Rank>& other : {std::vector<Rank>{}, {0, 1}, {0, 2, 1}, {0, 1, 2, 3}})
    EXPECT_FALSE(are_all_ranks(other, 3));
}

TEST(RanksOfJob, TheConditionNamesThem) {
  EXPECT_EQ(condition_of_start({2, 0}),
            "the job begins when each of the ranks [2, 0] calls init() with this list, in this order");
}

}  // namespace
}  // namespace rueda
