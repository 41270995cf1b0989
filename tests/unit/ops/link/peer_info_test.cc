// SPDX-License-Identifier: Apache-2.0
#include "ops/link/peer_info.h"

#include <gtest/gtest.h>

#include "core/control/messages/control_message.h"

namespace rueda {
namespace {

using Infos = std::vector<std::string>;

TEST(PeerInfo, EachPartGetsItsOwnInTheOrderOfAdding) {
  std::vector<Infos> seen;
  auto on_peers_known = [&](const Welcome& welcome, const RuntimeComponents::Alive& alive) {
    seen.push_back(welcome.peer_infos);
    alive();
  };
  RuntimeComponents components;
  add_peer_info(components, "first", on_peers_known);
  add_peer_info(components, "", on_peers_known);
  add_peer_info(components, std::string("\0last", 5), on_peers_known);
  RuntimeComponents other;
  add_peer_info(other, std::string(1000, 'a'), {});
  add_peer_info(other, "b", {});
  add_peer_info(other, "c", {});
  Welcome welcome;
  welcome.peer_infos = {components.peer_info, other.peer_info};
  int alive = 0;
  components.on_peers_known(welcome, [&] { ++alive; });
  EXPECT_EQ(seen, (std::vector<Infos>{
                      {"first", std::string(1000, 'a')}, {"", "b"}, {std::string("\0last", 5), "c"}}));
  EXPECT_EQ(alive, 3);
}

TEST(PeerInfo, WhatCannotBeReadIsNone) {
  Infos seen;
  RuntimeComponents components;
  add_peer_info(components, "info",
                [&](const Welcome& welcome, const RuntimeComponents::Alive&) { seen = welcome.peer_infos; });
  Welcome welcome;
  welcome.peer_infos = {"",
                        "x",
                        std::string(20, '\xff'),
                        components.peer_info.substr(1),
                        components.peer_info + "x",
                        components.peer_info};
  components.on_peers_known(welcome, [] {});
  EXPECT_EQ(seen, (Infos{"", "", "", "", "", "info"}));
}

}  // namespace
}  // namespace rueda
