// SPDX-License-Identifier: Apache-2.0
#include "ops/cards.h"

#include <gtest/gtest.h>

#include "core/control/message.h"

namespace rueda {
namespace {

using Cards = std::vector<std::string>;

TEST(Cards, EachPartGetsItsOwnInTheOrderOfAdding) {
  std::vector<Cards> met;
  auto meet = [&](const Welcome& welcome, const Parts::Alive& alive) {
    met.push_back(welcome.cards);
    alive();
  };
  Parts parts;
  add_card(parts, "first", meet);
  add_card(parts, "", meet);
  add_card(parts, std::string("\0last", 5), meet);
  Parts other;
  add_card(other, std::string(1000, 'a'), {});
  add_card(other, "b", {});
  add_card(other, "c", {});
  Welcome welcome;
  welcome.cards = {parts.card, other.card};
  int alive = 0;
  parts.meet(welcome, [&] { ++alive; });
  EXPECT_EQ(met, (std::vector<Cards>{
                     {"first", std::string(1000, 'a')}, {"", "b"}, {std::string("\0last", 5), "c"}}));
  EXPECT_EQ(alive, 3);
}

TEST(Cards, WhatCannotBeReadIsNone) {
  Cards met;
  Parts parts;
  add_card(parts, "card", [&](const Welcome& welcome, const Parts::Alive&) { met = welcome.cards; });
  Welcome welcome;
  welcome.cards = {"", "x", std::string(20, '\xff'), parts.card.substr(1), parts.card + "x", parts.card};
  parts.meet(welcome, [] {});
  EXPECT_EQ(met, (Cards{"", "", "", "", "", "card"}));
}

}  // namespace
}  // namespace rueda
