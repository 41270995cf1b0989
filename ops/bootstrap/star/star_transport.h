// SPDX-License-Identifier: Apache-2.0
// Control messages before ranks know each other: every rank has one connection, to rank 0.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/system/owner_thread.h"
#include "core/control/messages/transport.h"
#include "ops/bootstrap/star/root_connector.h"
#include "ops/bootstrap/star/star_door.h"
#include "ops/bootstrap/star/star_edge.h"
#include "ops/bootstrap/star/welcome_relay.h"

namespace rueda {

// Purpose: rank 0's end. It listens until every rank has come. A rank whose connection ends during the start
// may come again; after some seconds it is lost. Made by the thread that starts the Runtime, then owned by
// the background thread.
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
  // As the end of the process does.
  void cut() override;

 private:
  void seat(StarEdge edge);
  void look_at_members();
  void close_when_complete();

  const StarMember self_;
  std::optional<StarDoor> door_;          // none once all are there
  std::unique_ptr<RootAddress> address_;  // null from then on
  std::map<Rank, StarEdge> edges_;
  std::map<Rank, Time> gone_;  // since when: their connections have ended
  std::set<Rank> told_lost_;
  std::vector<Envelope> arrived_;  // the next one last
  std::string obstacle_;
  bool in_order_ = false;
  Time looked_{};
  OwnerThread owner_;
};

// Purpose: the end of another rank. It looks for rank 0 until it has found it; messages wait until then. If
// the connection ends before rank 0 has said anything, it was that of an older job perhaps: the rank looks
// again. Other ranks are reached during the start only, where there is a relay. Made by the thread that
// starts the Runtime, then owned by the background thread.
class StarLeaf final : public Transport {
 public:
  // `listener`: where others may take the Welcome from this rank; without sockets they cannot.
  StarLeaf(StarMember self, std::unique_ptr<RootAddress> address, Duration deadline,
           StarListener listener = {});
  ~StarLeaf() override;

  void send(Rank to, Bytes bytes) override;
  // Throws std::runtime_error if rank 0 turns this rank away.
  std::optional<Envelope> receive() override;
  std::vector<Rank> lost(Time now) override;
  bool rings_doorbell() const override { return false; }
  void end_in_order() override { in_order_ = true; }
  bool drain() override;
  bool wait(Duration longest) override;
  std::string obstacle() const override;
  bool only_reaches_root() const override { return true; }
  std::string relay() const override { return relay_ ? relay_->card() : ""; }
  void take_welcome_from(Rank rank, const std::string& relay) override;
  std::optional<Time> known_to_root_since() const override;
  void cut() override;

 private:
  std::unique_ptr<RootConnector> connector_;  // null once rank 0 has said something
  std::optional<StarEdge> edge_;              // once rank 0 has confirmed this rank
  Time since_{};                              // of the edge
  std::vector<Bytes> unanswered_;             // all that was sent before rank 0 has said something
  std::optional<Time> broken_;                // since when a confirmed connection has ended
  std::unique_ptr<WelcomeRelay> relay_;       // null once the start is over
  bool in_order_ = false;
  bool told_lost_ = false;
  OwnerThread owner_;
};

}  // namespace rueda
