// SPDX-License-Identifier: Apache-2.0
// Finds the network card that holds the others up.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/view/job_state.h"

namespace rueda {

// Purpose: cards that send slower than those of other hosts. A plain value; speeds in bytes a second, while
// data wait for the card.
struct SlowCards {
  std::set<std::string> names;  // "eth0 of node2"; one, or the two ends of a slow connection
  double speed = 0;             // of the slowest
  double speed_of_others = 0;   // of the fastest
};

// They send about as much as the others, for a ring gives all the same load, and take more than twice as
// long for it. A card that is slow in both directions makes the sender before it slow, too: then both are
// named. A card that sends little says nothing of its speed, and neither does a host that is silent for some
// seconds before `now` (Unix seconds).
std::optional<SlowCards> slow_cards(const std::vector<HostView>& hosts, double now);

// "card eth0 of node2 sends 2.5 MB/s, the cards of other hosts 24 MB/s"
std::string in_words(const SlowCards& cards);

// Purpose: cards that are slow for a while, since a single look may err: in most looks of 3 s, until no look
// of 5 s names them. Pure; time is passed in, in Unix seconds. Owned by the main thread of the supervisor.
class LastingSlowCards {
 public:
  // The present state. Returns news in words: cards that have become slow. Empty: none.
  std::string look(const std::optional<SlowCards>& slow, double now);
  // In words; empty: none.
  std::string words() const;
  // A card was slow in a look of the last seconds. Then ranks seem late that only wait for it.
  bool any_suspect() const { return !spells_.empty(); }

 private:
  using Names = std::set<std::string>;
  struct Spell {
    double since = 0, last = 0;
    int looks = 0, seen = 0;
    SlowCards cards;
  };
  const Spell* oldest() const;  // that lasts

  std::map<Names, Spell> spells_;
  Names told_;
};

}  // namespace rueda
