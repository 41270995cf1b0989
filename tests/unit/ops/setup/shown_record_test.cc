// SPDX-License-Identifier: Apache-2.0
// Ranks as the agent reads them.
#include "ops/setup/shown_record.h"

#include <gtest/gtest.h>

namespace rueda::ops {
namespace {

TEST(InRuns, KeepsTheOrderOfRanks) {
  EXPECT_EQ(in_runs({}), "-");
  EXPECT_EQ(in_runs({3}), "3");
  EXPECT_EQ(in_runs({0, 1, 2, 3}), "0-3");
  EXPECT_EQ(in_runs({4, 5, 9, 2, 1}), "4-5,9,2,1");
}

}  // namespace
}  // namespace rueda::ops
