// SPDX-License-Identifier: Apache-2.0
// How fast network cards carry what programs send through them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rueda {

// Purpose: a TCP connection with another machine, as the kernel counts it. A plain value.
struct ConnectionCount {
  std::uint64_t cookie = 0;  // names the connection as long as the machine runs
  std::string local;         // address
  std::uint64_t acknowledged_bytes = 0;
  std::uint64_t sending_us = 0;  // data were on their way, and the receiver had room
};

// The established ones of this network namespace. Empty where the kernel does not tell.
std::vector<ConnectionCount> tcp_connections();
// Cards by their addresses.
std::map<std::string, std::string> cards_by_address();

// Purpose: the speed of each card while it has something to send, from the counts of the connections that
// carry most. A card that was idle for some seconds has no speed. Owned by one thread.
class CardTraffic {
 public:
  struct Speed {
    double bytes_per_second = 0;
    double sending_seconds = 0;  // over which it was measured
  };

  // By card, over the last seconds in which it was sending. `connections`: now.
  std::map<std::string, Speed> speeds(const std::vector<ConnectionCount>& connections,
                                      const std::map<std::string, std::string>& cards, std::int64_t now_ns);

 private:
  std::map<std::uint64_t, ConnectionCount> before_;  // by cookie
  std::map<std::string, Speed> speeds_;
  std::map<std::string, std::int64_t> moved_ns_;  // the last time that a card sent
};

}  // namespace rueda
