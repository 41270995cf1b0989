// SPDX-License-Identifier: Apache-2.0
// Control messages by MPI.
#pragma once

#include <mpi.h>

#include <deque>
#include <optional>
#include <vector>

#include "core/base/system/owner_thread.h"
#include "core/control/messages/transport.h"
#include "ops/mpi/mpi_runtime.h"

namespace rueda {

// Purpose: the Transport over nonblocking MPI point to point. Owned by the background thread.
class MpiTransport final : public Transport {
 public:
  MpiTransport(MpiRuntime& mpi, MpiGroup& group) : mpi_(mpi), group_(group) {}
  ~MpiTransport() override;

  void send(Rank to, Bytes bytes) override;
  std::optional<Envelope> receive() override;
  std::vector<Rank> lost(Time now) override;
  bool rings_doorbell() const override { return false; }

 private:
  struct Message {
    Envelope envelope;
    MPI_Request request = MPI_REQUEST_NULL;
    bool done();
  };

  int tag();
  bool accept_arriving();
  void retire_sent();
  std::vector<Rank> failed_in_mpi();

  MpiRuntime& mpi_;
  MpiGroup& group_;
  std::optional<int> tag_;
  std::deque<Message> sending_;
  std::optional<Message> receiving_;
  std::vector<Rank> known_lost_;
  std::vector<Rank> named_by_mpi_;  // at the last look
  std::size_t named_by_agent_ = 0;
  int failed_in_mpi_ = 0;  // how many MPICH has named
  Time looked_for_lost_{};
  OwnerThread owner_;
};

}  // namespace rueda
