// SPDX-License-Identifier: Apache-2.0
#include "ops/link/peer_info.h"

#include <gtest/gtest.h>

#include "core/control/messages/control_message.h"

namespace rueda {
namespace {

using Cards = std::vector<std::string>;

TEST(Cards, EachPartGetsItsOwnInTheOrderOfAdding) {
  std::vector<Cards> met;
  auto meet = [&](const Welcome& welcome, const RuntimeComponents::Alive& alive) {
    met.push_back(welcome.cards);
    alive();
  };
  RuntimeComponents components;
  add_peer_info(components, "first", meet);
  add_peer_info(components, "", meet);
  add_peer_info(components, std::string("\0last", 5), meet);
  RuntimeComponents other;
  add_peer_info(other, std::string(1000, 'a'), {});
  add_peer_info(other, "b", {});
  add_peer_info(other, "c", {});
  Welcome welcome;
  welcome.cards = {components.card, other.card};
  int alive = 0;
  components.meet(welcome, [&] { ++alive; });
  EXPECT_EQ(met, (std::vector<Cards>{
                     {"first", std::string(1000, 'a')}, {"", "b"}, {std::string("\0last", 5), "c"}}));
  EXPECT_EQ(alive, 3);
}

TEST(Cards, WhatCannotBeReadIsNone) {
  Cards met;
  RuntimeComponents components;
  add_peer_info(components, "card",
                [&](const Welcome& welcome, const RuntimeComponents::Alive&) { met = welcome.cards; });
  Welcome welcome;
  welcome.cards = {
      "", "x", std::string(20, '\xff'), components.card.substr(1), components.card + "x", components.card};
  components.meet(welcome, [] {});
  EXPECT_EQ(met, (Cards{"", "", "", "", "", "card"}));
}

}  // namespace
}  // namespace rueda
