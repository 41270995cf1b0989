// SPDX-License-Identifier: Apache-2.0
// One Transport out of two: shared memory inside a host where it works, a network for everything else.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/base/system/owner_thread.h"
#include "core/control/messages/transport.h"

namespace rueda {

// Purpose: `near` carries the edges between the leader of a host, its lowest rank, and the host's other
// ranks, as far as both ends can; `far` carries the rest, and everything until connect(). Owned by the
// background thread.
//
// Both ends of an edge must agree, and messages stay in order. After connect() the member reports its
// mappings over `far`. The leader chooses the way. Meanwhile both sides keep their messages. (The start of a
// job has nothing on its way between two ranks when they connect.) Words of this agreement and other messages
// differ by a byte at their end.
class TreeTransport final : public Transport {
 public:
  // The ranks of this host, as this rank found them.
  struct Host {
    std::vector<Rank> ranks;   // this rank too, ascending
    std::vector<Rank> mapped;  // those that `near` reaches, this rank too if it can be reached at all
    bool everybody = false;    // the job has no other rank
    bool ready = true;         // this rank has what else they need to share
  };

  TreeTransport(Rank rank, std::unique_ptr<Transport> far, std::unique_ptr<Transport> near);

  void connect(const Host& host);
  // At the leader: every rank of the job is on this host, and each reaches all others.
  bool complete() const { return host_ && host_->everybody && host_complete(); }
  // At rank 0: on the host of this leader each rank reaches all others. Each leader says so once, by `far`.
  bool complete(Rank leader) const { return leader == rank_ ? host_complete() : complete_.contains(leader); }

  void send(Rank to, Bytes bytes) override;
  std::optional<Envelope> receive() override;
  std::vector<Rank> lost(Time now) override;
  // Returns true if `near` carries all messages that can come: then `far` is looked at only now and then.
  bool rings_doorbell() const override;
  bool quiet() const override { return rings_doorbell() && near_->quiet(); }
  // A message by `near` rings the doorbell, and does not end the sleep.
  bool wait(Duration longest) override;
  std::string obstacle() const override { return far_->obstacle(); }
  bool only_reaches_root() const override { return far_->only_reaches_root(); }
  void end_in_order() override { far_->end_in_order(); }
  void cut() override {
    far_->cut();
    near_->cut();
  }
  bool drain() override { return far_->drain(); }
  std::string relay() const override { return far_->relay(); }
  void take_welcome_from(Rank rank, const std::string& relay) override {
    far_->take_welcome_from(rank, relay);
  }
  std::optional<Time> known_to_root_since() const override { return far_->known_to_root_since(); }

 private:
  enum class Way { undecided, far, near };
  // How much of the host a rank has mapped.
  enum class Reach : std::uint8_t { not_the_leader, leader, all };
  struct Edge {
    Way way = Way::undecided;
    Reach reach = Reach::not_the_leader;  // of the member, as it told the leader
    std::vector<Bytes> held;
  };

  void send_far(Rank to, Bytes bytes, std::byte kind);
  std::optional<Envelope> receive_far();
  void take_word(Rank from, std::byte word);
  void decide(Rank peer, Way way);
  bool host_complete() const;
  void tell_if_complete();

  Rank rank_;
  std::unique_ptr<Transport> far_;
  std::unique_ptr<Transport> near_;
  std::optional<Host> host_;                       // from connect() on
  Reach reach_ = Reach::not_the_leader;            // of this rank
  std::map<Rank, Edge> edges_;                     // inside the host; all others are far
  std::vector<std::pair<Rank, std::byte>> early_;  // words that came before connect()
  std::size_t near_edges_ = 0;
  std::set<Rank> complete_;  // at rank 0: leaders that have said so
  bool told_complete_ = false;
  std::set<Rank> told_lost_;
  bool far_is_due_ = true;  // what rings has nothing to come by there
  Time looked_far_{};
  OwnerThread owner_;
};

}  // namespace rueda
