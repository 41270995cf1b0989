// SPDX-License-Identifier: Apache-2.0
// Answers those that connect.
#pragma once

#include <poll.h>

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/sockets/tcp_socket.h"
#include "ops/tcp/connect/handshake.h"
#include "rueda/rank_set.h"

namespace rueda {

// Purpose: the listening side of all pairs of ranks. A connection that does not prove in time to be an
// expected peer is closed. When too many do nothing the eldest goes, so that nobody can keep others out. A
// peer is here when all the rails that it has settled on are. Part of a TcpDialer.
class TcpAcceptor {
 public:
  TcpAcceptor(Rank rank, const TcpSecret& secret, std::span<const Descriptor> listeners, RankSet expected,
              Duration timeout, bool encrypted);

  void step(Time now);
  // Those of the peers that are here, each told once.
  std::map<Rank, std::vector<ConnectedRail>> take_complete();
  void watch(std::vector<pollfd>& sockets) const;

 private:
  struct Guest {
    Descriptor socket;
    std::size_t card = 0;  // where it came in
    Time since{};
    BlockReader<TcpHello> hello;
    BlockReader<Settled> settled;
    bool known = false;  // has said who it is, and proved it
    RailKeys keys;       // since then
  };

  void accept(std::size_t card, Time now);
  bool hear(Guest& guest);  // whether it may stay
  bool hear_hello(Guest& guest);
  bool keep(Guest& guest);
  void limit_repetitions(const TcpHello& hello);
  void complain(const Guest& guest, const std::string& what);

  Rank rank_;
  TcpSecret secret_;
  std::span<const Descriptor> listeners_;
  RankSet expected_;
  Duration timeout_;
  bool encrypted_;
  std::deque<Guest> guests_;  // the eldest first
  std::map<Rank, std::vector<ConnectedRail>> rails_;
  RankSet here_;
  int complaints_ = 0;
};

}  // namespace rueda
