// SPDX-License-Identifier: Apache-2.0
// Cards and names of this host.
#include "launcher/doctor/network_facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace rueda {
namespace {

using namespace std::chrono_literals;

TEST(NetworkFacts, EachCardStandsOnceAndLoopbackDoesNot) {
  std::set<std::string> names;
  for (const agents::CardFacts& card : cards_here("")) {
    EXPECT_NE(card.name, "lo");
    EXPECT_TRUE(names.insert(card.name).second) << card.name;
    EXPECT_FALSE(card.address.empty());
  }
}

TEST(NetworkFacts, CardsCanBeChosenByNameAndByAddress) {
  const std::vector<agents::CardFacts> by_name = cards_here("lo");
  ASSERT_EQ(by_name.size(), 1u);
  EXPECT_EQ(by_name[0].address, "127.0.0.1");
  EXPECT_EQ(cards_here("127.0.0.1"), by_name);
  EXPECT_TRUE(cards_here("no-such-card").empty());
}

TEST(NetworkFacts, NamesHaveAddressesOrAReason) {
  const std::vector<agents::NameFacts> found =
      look_up({"localhost", "no-such-host.invalid", "127.0.0.1"}, 60s);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_FALSE(found[0].addresses.empty());
  EXPECT_FALSE(found[1].problem.empty());
  EXPECT_EQ(found[2].addresses.front(), "127.0.0.1");
  EXPECT_NE(look_up({"localhost"}, 0s)[0].problem.find("too long"), std::string::npos);
}

TEST(NetworkFacts, NamesWithoutAFaultAreNotDoubtful) {
  const std::vector<agents::NameFacts> all{{"a", {"10.0.0.1"}, ""},
                                           {"b", {}, "not known"},
                                           {"c", {"10.0.0.1", "127.0.1.1"}, ""},
                                           {"d", {"::1"}, ""}};
  EXPECT_EQ(doubtful(all, 9), (std::vector{all[1], all[2], all[3]}));
  EXPECT_EQ(doubtful(all, 1), std::vector{all[1]});
}

}  // namespace
}  // namespace rueda
