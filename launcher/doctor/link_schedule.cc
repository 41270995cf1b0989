// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/link_schedule.h"

#include <algorithm>

namespace rueda {
namespace {

// One host stays, and the others move around a circle. With an odd number of hosts the one that stays is
// none.
Round round_of(int number, int hosts) {
  const int circle = hosts % 2 == 0 ? hosts - 1 : hosts;
  Round pairs;
  if (hosts % 2 == 0) pairs.emplace_back(number, hosts - 1);
  for (int k = 1; k <= (circle - 1) / 2; ++k) {
    const int a = (number + k) % circle, b = (number - k + circle) % circle;
    pairs.emplace_back(std::min(a, b), std::max(a, b));
  }
  return pairs;
}

}  // namespace

std::vector<Round> tournament(int hosts, int most) {
  if (hosts < 2) return {};
  const int all = hosts % 2 == 0 ? hosts - 1 : hosts;
  const int rounds = std::min(all, most);
  std::vector<Round> chosen;
  for (int i = 0; i < rounds; ++i) chosen.push_back(round_of(i * all / rounds, hosts));
  return chosen;
}

}  // namespace rueda
