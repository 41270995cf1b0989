// SPDX-License-Identifier: Apache-2.0
// Data by TCP, over one connection a rail.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/system/descriptor.h"
#include "core/base/system/owner_thread.h"
#include "ops/link/link.h"
#include "ops/tcp/connect/dialer.h"
#include "ops/tcp/tcp_peer.h"

namespace rueda {

// Purpose: the Link over sockets; a Ticket is an index into a table of messages. Bytes move in done(), a
// bounded number each time. A connection that ends, or that TCP gives up, makes its peer lost: calls about
// that peer throw PeerGone, or std::runtime_error where a side has broken the rules, and messages that were
// there before are still done. So does a peer that reads nothing for the deadline of its sockets. Whoever
// destroys it while others wait for what it has sent cuts them off. Owned by the background thread.
class TcpLink final : public Link {
 public:
  explicit TcpLink(Rank rank);

  // The rails to one peer, non-blocking sockets in the same order on both sides; as TcpListener gives them.
  void connect(Rank peer, std::vector<ConnectedRail> rails);
  // From now on a peer that is not connected is dialed when it is first needed.
  void dial_on_demand(std::unique_ptr<TcpDialer> dialer) { dialer_ = std::move(dialer); }

  Ticket post_send(Rank peer, ConstBytes bytes, Tag tag) override;
  Ticket post_receive(Rank peer, MutableBytes bytes, Tag tag) override;
  std::optional<std::size_t> done(Ticket ticket) override;
  void cancel(Ticket ticket) override;

  // Moves what can be moved now, of all peers.
  void progress();
  // Sends what has been posted, as far as sockets take it.
  void write();
  // Returns the answer that done() would give, without moving anything.
  bool over(Ticket ticket) const { return messages_.at(ticket)->over; }
  // Why that peer is lost: empty where its connection has ended, else words; nothing while it is not.
  const std::optional<std::string>& failure(Rank peer) const { return peers_.at(peer)->failure(); }
  // The network's words on that peer if the network has lost it: see TcpPeer. Empty for all other peers.
  std::string silence(Rank peer) const;
  // Of the first rail to that peer, which is connected.
  const RailKeys& keys(Rank peer) const { return peers_.at(peer)->keys(); }
  // Bytes by rail, headers included; none once the peer is lost.
  std::vector<TcpPeer::Traffic> traffic(Rank peer) const { return peers_.at(peer)->traffic(); }

 private:
  TcpPeer& reach(Rank peer);
  Ticket keep(std::shared_ptr<TcpMessage> message);
  std::shared_ptr<TcpMessage> give_back(Ticket ticket);
  void want_to_write(TcpPeer& peer);
  void attach_dialed();

  // Of so many looks at a short message one is at all sockets; the others are at the one that is asked about,
  // which saves asking the system whether there is something to read. Long ones wait for sockets to take
  // more, too, which only the system tells.
  static constexpr unsigned kOfAll = 4;

  Rank rank_;
  Descriptor epoll_;
  std::unique_ptr<TcpDialer> dialer_;  // null: no others than those that have been given
  std::unordered_map<Rank, std::unique_ptr<TcpPeer>> peers_;
  std::vector<TcpPeer*> writing_;  // may have something to write
  std::vector<std::shared_ptr<TcpMessage>> messages_;
  std::vector<Ticket> free_;
  unsigned looks_ = 0;
  OwnerThread owner_;
};

}  // namespace rueda
