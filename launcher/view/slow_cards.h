// SPDX-License-Identifier: Apache-2.0
// Finds the network card that holds the others up.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/view/job_state.h"

namespace rueda {

// Purpose: cards that send slower than those of other hosts. A plain value; speeds in bytes a second, while
// data wait for the card.
struct SlowCards {
  std::vector<std::string> names;  // "eth0 of node2"; one, or the two ends of a slow connection
  double speed = 0;                // of the slowest
  double speed_of_others = 0;      // of the fastest
};

// They send about as much as the others, for a ring gives all the same load, and take more than twice as
// long for it. A card that is slow in both directions makes the sender before it slow, too: then both are
// named. A card that sends little says nothing of its speed, and neither does a host that is silent for some
// seconds before `now` (Unix seconds).
std::optional<SlowCards> slow_cards(const std::vector<HostView>& hosts, double now);

// "card eth0 of node2 sends 2.5 MB/s, the cards of other hosts 24 MB/s"
std::string in_words(const SlowCards& cards);

}  // namespace rueda
