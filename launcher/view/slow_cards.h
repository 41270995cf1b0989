// SPDX-License-Identifier: Apache-2.0
// Finds the network card that holds the others up.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/view/job_state.h"

namespace rueda {

// Purpose: a card that sends slower than those of other hosts. A plain value; in bytes a second, while data
// wait for the card.
struct SlowCard {
  std::string host;
  std::string card;
  double speed = 0;
  double speed_of_others = 0;  // their median
};

// The slowest one. It sends about as much as the others, for a ring gives all the same load, and takes more
// than twice as long for it. A card that sends little says nothing of its speed.
std::optional<SlowCard> slow_card(const std::vector<HostView>& hosts);

// "card eth0 of node2 sends 2.5 MB/s, the cards of other hosts 24 MB/s"
std::string in_words(const SlowCard& card);

}  // namespace rueda
