// SPDX-License-Identifier: Apache-2.0
// Control messages before ranks know each other: every rank has one connection, to rank 0.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/system/owner_thread.h"
#include "core/control/messages/transport.h"
#include "ops/bootstrap/root_connector.h"
#include "ops/bootstrap/star_edge.h"

namespace rueda {

// Where rank 0 listens.
struct StarListener {
  std::vector<Descriptor> sockets;
  TcpEndpoint endpoint;
};

// Purpose: rank 0's end. It listens until every rank has come. Strangers are dropped: those that do not prove
// within some seconds that they know the secret, and some at random when there are too many. A rank whose
// connection ends during the start may come again; after some seconds it is lost. Made by the thread that
// starts the Runtime, then owned by the background thread.
class StarRoot final : public Transport {
 public:
  // Publishes the endpoint. Throws BackendError. `deadline`: of silence, after which a rank is lost.
  StarRoot(StarMember self, StarListener listener, std::unique_ptr<RootAddress> address, Duration deadline);
  ~StarRoot() override;

  // A rank that has not come, or is lost, gets nothing.
  void send(Rank to, Bytes bytes) override;
  std::optional<Envelope> receive() override;
  std::vector<Rank> lost(Time now) override;
  bool rings_doorbell() const override { return false; }
  void end_in_order() override { in_order_ = true; }
  bool drain() override;
  bool wait(Duration longest) override;
  std::string obstacle() const override { return obstacle_; }
  bool only_reaches_root() const override { return true; }
  // Ends all connections without a farewell, as the end of the process does.
  void cut();

 private:
  struct Guest {
    StarEdge edge;
    Time since;
  };

  void accept_guests();
  void greet_guests();
  void seat(StarEdge edge);
  void look_at_members();
  void close_when_complete();

  const StarMember self_;
  StarListener listener_;                 // without sockets once all are there
  std::unique_ptr<RootAddress> address_;  // null from then on
  const Duration deadline_;
  std::list<Guest> guests_;         // have not proved yet that they are ranks
  std::map<Rank, StarEdge> edges_;  // of those that have
  std::map<Rank, Time> gone_;       // since when: their connections have ended
  std::set<Rank> told_lost_;
  std::vector<Envelope> arrived_;  // the next one last
  std::string obstacle_;
  bool in_order_ = false;
  Time looked_{};
  OwnerThread owner_;
};

// Purpose: the end of another rank. It looks for rank 0 until it has found it; messages wait until then. If
// the connection ends before rank 0 has said anything, it was that of an older job perhaps: the rank looks
// again. Made by the thread that starts the Runtime, then owned by the background thread.
class StarLeaf final : public Transport {
 public:
  StarLeaf(StarMember self, std::unique_ptr<RootAddress> address, Duration deadline);
  ~StarLeaf() override;

  void send(Rank to, Bytes bytes) override;
  // Throws std::runtime_error if rank 0 turns this rank away.
  std::optional<Envelope> receive() override;
  std::vector<Rank> lost(Time now) override;
  bool rings_doorbell() const override { return false; }
  void end_in_order() override { in_order_ = true; }
  bool drain() override;
  bool wait(Duration longest) override;
  std::string obstacle() const override { return connector_ ? connector_->obstacle() : ""; }
  bool only_reaches_root() const override { return true; }
  std::optional<Time> known_to_root_since() const override;
  void cut();  // as StarRoot's

 private:
  std::unique_ptr<RootConnector> connector_;  // null once rank 0 has said something
  std::optional<StarEdge> edge_;              // once rank 0 has confirmed this rank
  Time since_{};                              // of the edge
  std::vector<Bytes> unanswered_;             // all that was sent before rank 0 has said something
  std::optional<Time> broken_;                // since when a confirmed connection has ended
  bool in_order_ = false;
  bool told_lost_ = false;
  OwnerThread owner_;
};

}  // namespace rueda
