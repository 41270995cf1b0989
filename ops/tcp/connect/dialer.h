// SPDX-License-Identifier: Apache-2.0
// Connects to peers when they are first needed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/system/descriptor.h"
#include "core/base/time.h"
#include "ops/sockets/endpoint.h"
#include "ops/tcp/connect/acceptor.h"
#include "ops/tcp/connect/connector.h"

namespace rueda {

// Purpose: most pairs of ranks never send each other data by TCP, so no pair connects before it has to. Both
// ranks of a pair want each other, since both run the same Plan; the lower one connects. One may come to that
// Plan much later than the other, which waits for it. Used by the background thread. No call blocks.
class TcpDialer {
 public:
  // The endpoints of all ranks, by rank; the listeners are those of this rank's. `deadline`: how
  // long a rank may take no connection.
  TcpDialer(Rank rank, std::vector<TcpEndpoint> endpoints, std::vector<Descriptor> listeners,
            Duration timeout, Duration deadline, bool encrypted);

  void want(Rank peer, Time now);
  // Ranks are wanted that are not connected yet.
  bool busy() const { return !wanted_.empty(); }
  // Waits until progress() can do something, but not for long.
  void sleep() const;
  // One of the ranks that are wanted: which ways to it have been tried; nothing where it is to connect.
  struct Missing {
    Rank peer = 0;
    std::optional<std::string> tried;
  };
  Missing missing() const;
  // The rails of those that have been connected since the last call. Throws std::runtime_error, naming both
  // ranks, where one has taken no connection for the deadline.
  std::map<Rank, std::vector<ConnectedRail>> progress(Time now);

 private:
  [[noreturn]] void give_up(const TcpConnector& connector) const;

  const Rank rank_;
  const std::vector<TcpEndpoint> endpoints_;
  const std::vector<Descriptor> listeners_;
  const Duration timeout_;
  const Duration deadline_;
  const bool encrypted_;
  TcpAcceptor acceptor_;
  std::map<Rank, TcpConnector> connectors_;
  std::map<Rank, Time> wanted_;  // since when, or since a connection was last there
};

}  // namespace rueda
