// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/ranges.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

TEST(Ranges, AreShort) {
  EXPECT_EQ(in_ranges({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(in_ranges({5}), "5");
  EXPECT_EQ(in_ranges({}), "");
}

}  // namespace
}  // namespace rueda
