// SPDX-License-Identifier: Apache-2.0
// The card that holds the others up is found, and no other one.
#include "launcher/view/slow_cards.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rueda {
namespace {

constexpr double kNow = 1000;

// A host whose only card has sent so many bytes in the last second.
HostView host(const std::string& name, std::uint64_t bytes, double speed) {
  HostView view;
  view.name = name;
  view.is_heard = true;
  view.heard_at = kNow;
  view.before = {.now_ns = 0, .cards = {{.name = "eth0"}}};
  view.load = {.now_ns = 1'000'000'000, .cards = {{.name = "eth0", .sent_bytes = bytes, .speed = speed}}};
  return view;
}

std::string words_of(const std::vector<HostView>& hosts, double now = kNow) {
  const auto slow = slow_cards(hosts, now);
  return slow ? in_words(*slow) : "";
}

TEST(SlowCards, TheSlowestOfARingIsNamed) {
  EXPECT_EQ(words_of({host("a", 2'000'000, 24e6), host("b", 2'000'000, 2.5e6), host("c", 2'100'000, 26e6)}),
            "card eth0 of b sends 2.5 MB/s, the cards of other hosts 26 MB/s");
  EXPECT_EQ(words_of({host("a", 2'000'000, 5e6), host("b", 2'000'000, 20e6)}),
            "card eth0 of a sends 5 MB/s, the cards of other hosts 20 MB/s");
}

TEST(SlowCards, OneThatIsSlowBothWaysIsNamedWithTheOneBeforeIt) {
  EXPECT_EQ(
      words_of({host("a", 2'000'000, 2.6e6), host("b", 2'000'000, 2.5e6), host("c", 2'100'000, 26e6)}),
      "cards eth0 of a and eth0 of b send 2.5 MB/s, the cards of other hosts 26 MB/s: one of both may hold "
      "the other up");
}

TEST(SlowCards, NobodyWhereSpeedsAreAlikeOrUnknown) {
  EXPECT_EQ(words_of({host("a", 2'000'000, 24e6), host("b", 2'000'000, 15e6)}), "");
  EXPECT_EQ(words_of({host("a", 2'000'000, 24e6), host("b", 2'000'000, 0)}), "");
  EXPECT_EQ(words_of({host("a", 2'000'000, 24e6)}), "");
  EXPECT_EQ(words_of({}), "");
  EXPECT_EQ(words_of({host("a", 2'000'000, 24e6), host("b", 2'000'000, 2e6)}, kNow + 4), "")
      << "they are silent";
}

TEST(SlowCards, ShortMessagesSayNothing) {
  EXPECT_EQ(words_of({host("root", 20'000'000, 24e6), host("leaf", 200'000, 1e6)}), "");
  EXPECT_EQ(words_of({host("a", 50'000, 24e6), host("b", 50'000, 1e6)}), "");
  EXPECT_EQ(words_of({host("a", 20'000'000, 24e6), host("b", 20'000'000, 24e6), host("leaf", 200'000, 1e6)}),
            "");
}

SlowCards two(std::set<std::string> names) {
  return {.names = std::move(names), .speed = 2e6, .speed_of_others = 20e6};
}

TEST(LastingSlowCards, AreToldOnceAndStayThroughLooksThatMissThem) {
  LastingSlowCards cards;
  int told = 0;
  for (int look = 0; look < 200; ++look) {  // 5 in a second; every third misses them
    const auto slow = look % 3 == 2 ? std::nullopt : std::optional(two({"eth0 of a", "eth0 of b"}));
    told += cards.look(slow, kNow + 0.2 * look).empty() ? 0 : 1;
    EXPECT_EQ(cards.words().empty(), look < 15) << look;
  }
  EXPECT_EQ(told, 1);
  for (int look = 200; look < 240; ++look) EXPECT_EQ(cards.look(std::nullopt, kNow + 0.2 * look), "");
  EXPECT_EQ(cards.words(), "");
}

TEST(LastingSlowCards, RareLooksAreNone) {
  LastingSlowCards cards;
  for (int look = 0; look < 300; ++look) {
    const auto slow = look % 12 == 0 ? std::optional(two({"eth0 of a"})) : std::nullopt;
    EXPECT_EQ(cards.look(slow, kNow + 0.2 * look), "");
  }
}

}  // namespace
}  // namespace rueda
