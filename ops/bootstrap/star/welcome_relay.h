// SPDX-License-Identifier: Apache-2.0
// The Welcome on its way from rank to rank, past rank 0.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/control/messages/transport.h"
#include "ops/bootstrap/star/root_connector.h"
#include "ops/bootstrap/star/star_door.h"

namespace rueda {

// Purpose: takes the Welcome from one other rank, and gives it to some. Each asks at the door of the rank
// that it was referred to. Gone once the Welcome is here and has been given on. Used by the background
// thread; no call blocks.
class WelcomeRelay {
 public:
  // `deadline`: of silence on a connection.
  WelcomeRelay(StarMember self, StarListener listener, Duration deadline);

  // By which others follow this rank.
  std::string card() const { return to_bytes(door_.endpoint()); }
  // The Welcome is to come from that rank. Throws BackendError where the card cannot be read.
  void follow(Rank rank, const std::string& card);
  std::optional<Envelope> receive(Time now);
  // Kept until that rank asks for it.
  void send(Rank to, Bytes bytes);
  // True once all that was to be sent has left. True too when it has been asked for some seconds.
  bool drain(Time now);

  bool following() const { return connector_ || edge_; }
  // While it follows: sleeps until something may have come, for `longest` at most.
  void wait(Duration longest);
  // While it does not: what would wake such a sleep.
  void watch(PollSet& set) const { door_.watch(set); }
  // Why that rank was not reached; empty where none is followed.
  std::string obstacle() const { return connector_ ? connector_->obstacle() : ""; }

 private:
  void take_guests();

  const StarMember self_;
  StarDoor door_;
  const Duration deadline_;
  Rank followed_ = 0;
  std::unique_ptr<RootConnector> connector_;  // until the followed rank has confirmed this one
  std::optional<StarEdge> edge_;              // from then on, until it has sent
  std::map<Rank, StarEdge> guests_;
  std::map<Rank, Bytes> unsent_;
  std::optional<Time> draining_;  // since when
};

}  // namespace rueda
