// SPDX-License-Identifier: Apache-2.0
// Control messages by TCP, over the connections that carry data.
#pragma once

#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/system/owner_thread.h"
#include "core/base/system/record_cipher.h"
#include "core/control/messages/transport.h"
#include "ops/tcp/tcp_link.h"

namespace rueda {

// To whom a rank sends control messages, by each rank's host: its neighbours in the control tree; and the
// lowest rank of each host tells rank 0 itself what it found there (tree_transport).
std::set<Rank> control_neighbours(Rank rank, const std::vector<std::string>& hosts);

// Purpose: the Transport of a rank whose job may have TCP connections. Until connect() it is `start`.
// Afterwards `start` only tells which ranks are lost: a send by it could wait for a rank that has ended.
// A `start` that reaches rank 0 only knows less than these connections, and ends then. Messages travel in
// order, under a tag of their own, in pieces short enough to need no grant. Each piece is encrypted:
// nobody on the way can read it, change it, leave it out or repeat it. A rank that ends says farewell,
// and waits two seconds at most for its neighbours' farewells. Connections that are closed while
// something is on its way may lose it, and one that ends without a farewell is a loss. Owned by the
// background thread.
class TcpTransport final : public Transport {
 public:
  TcpTransport(Rank rank, std::unique_ptr<Transport> start, std::shared_ptr<TcpLink> link)
      : rank_(rank), start_(std::move(start)), link_(std::move(link)) {}
  ~TcpTransport() override;

  // When the link is connected, everywhere: all that was sent by `start` has arrived. Only these ranks send
  // to this one, and it to them.
  void connect(const std::set<Rank>& neighbours);

  void send(Rank to, Bytes bytes) override;
  std::optional<Envelope> receive() override;
  // Throws std::runtime_error where a neighbour broke the rules of the link.
  std::vector<Rank> lost(Time now) override;
  bool rings_doorbell() const override { return !connected_ && start_->rings_doorbell(); }
  void end_in_order() override {
    if (start_) start_->end_in_order();
  }
  void cut() override {
    cut_ = true;
    if (start_) start_->cut();
  }
  bool drain() override { return connected_ || start_->drain(); }
  bool wait(Duration longest) override { return !connected_ && start_->wait(longest); }
  std::string obstacle() const override { return connected_ ? "" : start_->obstacle(); }
  bool only_reaches_root() const override { return !connected_ && start_->only_reaches_root(); }
  std::string relay() const override { return start_->relay(); }
  void take_welcome_from(Rank rank, const std::string& relay) override {
    start_->take_welcome_from(rank, relay);
  }
  std::optional<Time> known_to_root_since() const override {
    return connected_ ? std::nullopt : start_->known_to_root_since();
  }

  // No Plan's: lanes do not reach so far. The largest is that of messages which are timed at the start.
  static constexpr Tag kControlTag = std::numeric_limits<Tag>::max() - 1;
  // Bytes of a message; a longer one is an error of who sends it.
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;

 private:
  struct Piece {
    Ticket ticket = 0;
    Bytes bytes;
  };
  struct Edge {
    explicit Edge(const RailKeys& keys)
        : sealer(keys.cipher, keys.control.send), opener(keys.cipher, keys.control.receive) {}

    RecordCipher sealer;
    RecordCipher opener;
    std::deque<Piece> receiving;
    std::deque<Piece> sending;
    Bytes message;          // what has come of it
    bool farewell = false;  // has come
    bool told = false;      // that it is lost
  };

  void post(Rank peer, Edge& edge, Bytes piece);
  void expect(Rank peer, Edge& edge, Bytes room);
  void take_pieces(Rank peer, Edge& edge);
  void take(Rank peer, Edge& edge, MutableBytes sealed);
  void add(Rank peer, Edge& edge, ConstBytes piece);
  void retire(Edge& edge);
  void say_farewell();
  bool parted(Rank peer, Edge& edge);

  Rank rank_;
  std::unique_ptr<Transport> start_;  // null: has ended, or there was none
  std::shared_ptr<TcpLink> link_;
  bool connected_ = false;
  bool cut_ = false;
  std::map<Rank, Edge> edges_;
  std::deque<Envelope> arrived_;
  OwnerThread owner_;
};

}  // namespace rueda
