// SPDX-License-Identifier: Apache-2.0
// The listening sockets at which ranks connect before they talk by TCP.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/system/descriptor.h"
#include "ops/sockets/endpoint.h"
#include "ops/tcp/connect/dialer.h"
#include "rueda/status.h"
#include "rueda/types.h"

namespace rueda {

struct TcpSettings {
  std::vector<std::string>
      cards;               // names (eth0) or addresses, in the order of rails; empty: all but loopback
  double deadline = 10.0;  // seconds to connect, and of silence after which a peer that should answer is lost
  double timeout = 1.0;    // seconds a pair of cards may take to connect before it is left out
  bool encrypted = false;  // data; where one side of a connection wants it, it is
};

// Purpose: listens at every network card of this rank; then connects it with others, each pair of ranks by as
// many rails as the one with fewer cards has, each card once. The endpoint made at the start travels to all
// ranks by another way. Used by the thread that starts the Runtime; one of the last two functions is called,
// once.
class TcpListener {
  struct Key {};  // only open() constructs one

 public:
  struct Opened;
  static Opened open(const TcpSettings& settings);

  TcpListener(Key, const TcpSettings& settings) : settings_(settings) {}

  // For the introduction of this rank; to be given to connect() of all others.
  std::string endpoint() const { return to_bytes(endpoint_); }

  // Nobody connects before it has to. The hosts and peer_infos of all ranks are in their order. Throws
  // BackendError where an endpoint cannot be read.
  std::unique_ptr<TcpDialer> dial_on_demand(Rank rank, std::span<const std::string> hosts,
                                            std::span<const std::string> peer_infos);
  // Connects to all `peers` within the deadline, as they do; to others on demand, afterwards or already while
  // it waits. An error names both ranks, their hosts, the ways that were tried, and the remedy. Calls `alive`
  // while it waits.
  struct Connections;
  Connections connect(
      Rank rank, std::span<const std::string> hosts, std::span<const std::string> peer_infos,
      const std::set<Rank>& peers, const std::function<void()>& alive = [] {});

 private:
  const TcpSettings settings_;
  TcpEndpoint endpoint_;
  std::vector<Descriptor> listeners_;  // one for each address of the endpoint
};

// A door, or the reason why there is none.
struct TcpListener::Opened {
  std::unique_ptr<TcpListener> door;
  Status status;
};

// The rails of each peer, and of others that have come, in the same order on both sides, ready for
// TcpLink::connect().
struct TcpListener::Connections {
  std::map<Rank, std::vector<ConnectedRail>> rails;
  std::unique_ptr<TcpDialer> dialer;  // to all others
  Status status;
};

}  // namespace rueda
