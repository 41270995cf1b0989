// SPDX-License-Identifier: Apache-2.0
// The listening end of a star: connections come in, and prove that they are of the job.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "core/base/system/descriptor.h"
#include "core/base/time.h"
#include "ops/bootstrap/star/star_edge.h"
#include "ops/sockets/endpoint.h"
#include "ops/sockets/poll_set.h"
#include "rueda/types.h"

namespace rueda {

// The sockets of one rank, and the address by which others find them.
struct StarListener {
  std::vector<Descriptor> sockets;
  TcpEndpoint endpoint;
};

// Purpose: takes connections. Strangers are dropped: those that do not prove within some seconds that they
// know the secret, and some at random when there are too many. Owned by the background thread.
class StarDoor {
 public:
  // `size`: ranks of the job. `deadline`: of silence on a connection.
  StarDoor(StarListener listener, Rank size, Duration deadline);

  const TcpEndpoint& endpoint() const { return listener_.endpoint; }
  // Those that have proved themselves since the last call. Does not wait.
  std::vector<StarEdge> take();
  void watch(PollSet& set) const;
  // Why it takes no connections; empty as long as it does.
  const std::string& obstacle() const { return obstacle_; }

 private:
  struct Guest {
    StarEdge edge;
    Time since;
  };

  void accept_guests();

  StarListener listener_;
  const std::size_t most_guests_;
  const Duration deadline_;
  std::list<Guest> guests_;  // have not proved themselves yet
  std::string obstacle_;
};

}  // namespace rueda
