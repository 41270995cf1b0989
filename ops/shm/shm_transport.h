// SPDX-License-Identifier: Apache-2.0
// Control messages through shared memory, between the leader of a host and its other ranks.
#pragma once

#include <list>
#include <memory>

#include "core/base/system/owner_thread.h"
#include "core/control/messages/transport.h"
#include "ops/shm/local_peers.h"
#include "ops/shm/memory/byte_ring.h"

namespace rueda {

// Purpose: the edges between the leader of a host, its lowest rank, and the others: two rings each, in the
// segment of the one that is not the leader. Owned by the background thread. Empty until connect(). A ring
// that is corrupted throws BackendError, which ends the job.
class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(std::shared_ptr<LocalPeers> local_peers) : local_peers_(std::move(local_peers)) {}
  ~ShmTransport() override;

  // Once LocalPeers has connected.
  void connect(Rank rank);

  void send(Rank to, Bytes bytes) override;
  std::optional<Envelope> receive() override;
  std::vector<Rank> lost(Time now) override { return local_peers_->lost(now); }
  bool rings_doorbell() const override { return true; }
  void cut() override { edges_.clear(); }
  bool quiet() const override;

 private:
  struct Edge {
    Rank peer;
    ByteRingWriter writer;
    ByteRingReader reader;
  };

  void flush();

  std::shared_ptr<LocalPeers> local_peers_;
  std::list<Edge> edges_;  // the one to be read next in front
  OwnerThread owner_;
};

}  // namespace rueda
