// SPDX-License-Identifier: Apache-2.0
// Connects to one peer, by as many rails as there are.
#pragma once

#include <poll.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ops/sockets/tcp_socket.h"
#include "ops/tcp/connect/handshake.h"

namespace rueda {

// Purpose: the connecting side of one pair of ranks. Each card of ours tries the addresses of the peer, that
// with its own index first, one after the other. No address has two rails. A card that does not connect in
// the timeout is left out. An answer may take until the deadline of the caller, as long as the peer has
// answered nobody. When nobody got through, all begin again. Part of a TcpDialer.
class TcpConnector {
 public:
  TcpConnector(Rank rank, Rank peer, std::vector<TcpAddress> own, TcpEndpoint theirs, Duration timeout,
               bool encrypted);

  void step(Time now);
  bool over() const { return !rails_.empty(); }
  // Whether the peer has taken a connection, though it may not have answered yet.
  bool connected() const { return over() || std::ranges::any_of(lanes_, &Lane::connected); }
  std::vector<ConnectedRail> take_rails() { return std::move(rails_); }
  void watch(std::vector<pollfd>& sockets) const;

  Rank peer() const { return peer_; }
  std::string tried() const;  // what was tried last, and how it ended

 private:
  // One card of ours.
  struct Lane {
    std::vector<bool> tried;            // addresses of the peer
    std::optional<std::size_t> target;  // the one it is connected to, or about to be
    Descriptor socket;
    Time since{};
    bool connected = false;
    bool answered = false;
    bool given_up = false;
    ExchangeKeys exchange;  // of the hello
    TcpHello hello;
    RailKeys keys;  // once it is answered
    BlockReader<TcpAnswer> answer;
    std::string words;  // how the last try ended

    bool trying() const { return target && !answered; }
  };

  void advance(std::size_t lane, Time now);
  void begin(std::size_t lane, Time now);
  void hear(Lane& lane, Time now);
  void leave(Lane& lane, std::string words);
  bool expired(const Lane& lane, Time now) const;
  bool settle();

  Rank rank_;
  Rank peer_;
  std::vector<TcpAddress> own_;
  TcpEndpoint theirs_;
  Duration timeout_;
  bool encrypted_;
  std::vector<Lane> lanes_;
  std::optional<Time> first_answer_;
  Time again_{};  // not before
  std::vector<ConnectedRail> rails_;
};

}  // namespace rueda
