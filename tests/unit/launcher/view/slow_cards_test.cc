// SPDX-License-Identifier: Apache-2.0
// The card that holds the others up is found, and no other one.
#include "launcher/view/slow_cards.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

// A host whose only card has sent so many bytes in the last second.
HostView host(const std::string& name, std::uint64_t bytes, double speed) {
  HostView view;
  view.name = name;
  view.is_heard = true;
  view.before = {.now_ns = 0, .cards = {{.name = "eth0"}}};
  view.load = {.now_ns = 1'000'000'000, .cards = {{.name = "eth0", .sent_bytes = bytes, .speed = speed}}};
  return view;
}

TEST(SlowCards, TheSlowestOfARingIsNamed) {
  const auto slow =
      slow_card({host("a", 2'000'000, 24e6), host("b", 2'000'000, 2.5e6), host("c", 2'100'000, 26e6)});
  ASSERT_TRUE(slow);
  EXPECT_EQ(in_words(*slow), "card eth0 of b sends 2.5 MB/s, the cards of other hosts 25 MB/s");
}

TEST(SlowCards, OfTwoTheSlowerOne) {
  EXPECT_EQ(slow_card({host("a", 2'000'000, 5e6), host("b", 2'000'000, 20e6)})->host, "a");
}

TEST(SlowCards, NobodyWhereSpeedsAreAlikeOrUnknown) {
  EXPECT_FALSE(slow_card({host("a", 2'000'000, 24e6), host("b", 2'000'000, 15e6)}));
  EXPECT_FALSE(slow_card({host("a", 2'000'000, 24e6), host("b", 2'000'000, 0)}));
  EXPECT_FALSE(slow_card({host("a", 2'000'000, 24e6)}));
  EXPECT_FALSE(slow_card({}));
}

TEST(SlowCards, ShortMessagesSayNothing) {
  EXPECT_FALSE(
      slow_card({host("root", 20'000'000, 24e6), host("leaf", 200'000, 1e6), host("leaf2", 210'000, 1e6)}));
  EXPECT_FALSE(slow_card({host("root", 20'000'000, 24e6), host("leaf", 200'000, 1e6)}));
  EXPECT_FALSE(slow_card({host("a", 50'000, 24e6), host("b", 50'000, 1e6)}));
}

}  // namespace
}  // namespace rueda
