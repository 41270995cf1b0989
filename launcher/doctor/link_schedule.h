// SPDX-License-Identifier: Apache-2.0
// Which hosts measure their connection, in which round.
#pragma once

#include <utility>
#include <vector>

namespace rueda {

using HostPair = std::pair<int, int>;
using Round = std::vector<HostPair>;

// The rounds of a tournament (the circle method): each host is in one pair of a round at most. In all rounds
// each pair stands once. With fewer rounds, `most`, each host meets as many others, which are spread evenly.
std::vector<Round> tournament(int hosts, int most);

}  // namespace rueda
