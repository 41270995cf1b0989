// SPDX-License-Identifier: Apache-2.0
// All rails to one peer.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/system/descriptor.h"
#include "core/base/time.h"
#include "ops/tcp/connect/handshake.h"
#include "ops/tcp/flow_control.h"
#include "ops/tcp/rail_input.h"
#include "ops/tcp/rail_output.h"
#include "ops/tcp/rail_window.h"

namespace rueda {

// Purpose: moves what its FlowControl knows over the sockets of one peer. Each rail takes the next fragment
// when its socket takes more, so that shares follow what rails can carry; grants and eager messages go over
// the one that is quickest now. Watched by the epoll of its TcpLink, which owns it.
class TcpPeer {
 public:
  // Messages wait until the peer has rails.
  TcpPeer(Rank rank, Rank peer, int epoll) : rank_(rank), peer_(peer), epoll_(epoll), book_(rank, peer) {}
  // All of them, once.
  void connect(std::vector<ConnectedRail> rails);
  const RailKeys& keys() const { return keys_; }

  void send(std::shared_ptr<Outgoing> message);
  void receive(std::shared_ptr<Incoming> message);

  // Handles epoll's events of a rail. Reads a bounded number of bytes.
  void handle(std::size_t rail, std::uint32_t events);
  // Writes a bounded number of bytes; whether there is more to be written soon.
  bool write();

  // Whether somebody may wait for what is written next.
  bool urgent() const { return book_.urgent(); }

  bool lost() const { return failure_.has_value(); }
  bool has_one_rail() const { return rails_.size() == 1; }
  // Empty: the connection has ended; else what went wrong.
  const std::optional<std::string>& failure() const { return failure_; }
  // Words if the network ended the link, not the other side: "does not answer over eth1 any more (Connection
  // timed out); it may be alive".
  const std::string& silence() const { return silence_; }
  // Throws PeerGone, or the words of what went wrong, once it is lost.
  void check() const;

  struct Traffic {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };
  std::vector<Traffic> traffic() const;  // by rail

 private:
  struct Rail {
    Rail(ConnectedRail connected, std::size_t rails);

    Descriptor socket;
    RailWindow pace;
    RailInput input;
    RailOutput output;
    bool blocked = false;  // takes no more until epoll says so
    bool watched = false;  // for that
    bool broken = false;   // takes no more; what has come can still be read
  };

  bool read(Rail& rail, std::size_t budget);
  void begin_frame(Rail& rail);
  void end_frame(Rail& rail);
  bool write(std::size_t rail, std::size_t& budget);
  bool control_is_due() const;
  void load(std::size_t rail);
  std::size_t room_of(Rail& rail);
  std::size_t quickest_rail();
  void watch(std::size_t rail, int operation);
  void lose();
  void fail(const std::string& words);
  void tell(const std::string& words);

  Rank rank_;
  Rank peer_;
  int epoll_;
  std::vector<Rail> rails_;  // none before connect(), and after a loss
  RailKeys keys_;            // of the first rail
  FlowControl book_;
  std::optional<Time> control_since_;  // as write() has seen it
  std::size_t turn_ = 0;               // the rail that may take a fragment first
  std::size_t quickest_ = 0;           // as of quickest_at_
  Time quickest_at_{};
  std::optional<std::string> failure_;  // empty: the connection ended
  std::string silence_;
};

}  // namespace rueda
