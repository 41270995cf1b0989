// SPDX-License-Identifier: Apache-2.0
#include "core/control/messages/message_pair.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace rueda {
namespace {

TEST(MessagePair, HasASetOfItsOwn) {
  std::set<ProcessSetId> ids;
  constexpr Rank kLast = MessagePair::kMostRanks - 1;
  for (const MessagePair pair :
       {MessagePair{0, 1}, {1, 0}, {0, 2}, {2, 1}, {kLast, 0}, {0, kLast}, {kLast, kLast - 1}}) {
    EXPECT_TRUE(ids.insert(pair.id()).second);
    EXPECT_EQ(MessagePair::of(pair.id()), pair);
    EXPECT_EQ(pair.members().count(), 2);
    EXPECT_TRUE(pair.members().contains(pair.source) && pair.members().contains(pair.destination));
  }
}

TEST(MessagePair, OtherSetsAreNone) {
  for (const ProcessSetId id : {kWorld, ProcessSetId{1}, ProcessSetId{0x7fffffff}, MessagePair{3, 3}.id()})
    EXPECT_FALSE(MessagePair::of(id)) << id;
  for (std::uint64_t bits = 0x80000000; bits <= 0xffffffff; bits += 0x1234567) {  // from any peer
    const auto pair = MessagePair::of(static_cast<ProcessSetId>(bits));
    EXPECT_TRUE(!pair || pair->id() == bits) << bits;
  }
}

}  // namespace
}  // namespace rueda
