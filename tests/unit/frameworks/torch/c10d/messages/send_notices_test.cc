// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/send_notices.h"

#include <gtest/gtest.h>

#include <string>

namespace rueda {
namespace {

TEST(TagCounts, AreReadAsTheyWereWritten) {
  TagCounts counts;
  for (int i = 0; i < 3; ++i) counts.add(-5);
  counts.add(1 << 30);
  const TagCounts read = TagCounts::from_bytes(counts.to_bytes());
  EXPECT_EQ(read.messages, counts.messages);
  EXPECT_EQ(read.messages.at(-5), 3u);
  EXPECT_FALSE(read.has_others);
}

TEST(TagCounts, MoreTagsThanTheyHoldAreNoted) {
  TagCounts counts;
  for (std::size_t tag = 0; tag <= TagCounts::kMost; ++tag) counts.add(static_cast<int>(tag));
  EXPECT_EQ(counts.messages.size(), TagCounts::kMost);
  EXPECT_TRUE(TagCounts::from_bytes(counts.to_bytes()).has_others);
}

TEST(TagCounts, OtherBytesCountNothing) {
  TagCounts counts;
  counts.add(1);
  const std::string bytes = counts.to_bytes();
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_TRUE(TagCounts::from_bytes(bytes.substr(0, length)).messages.empty()) << length;
  EXPECT_TRUE(TagCounts::from_bytes(bytes + "x").messages.empty());
  EXPECT_TRUE(TagCounts::from_bytes(std::string(100, '\xff')).messages.empty());
}

}  // namespace
}  // namespace rueda
