// SPDX-License-Identifier: Apache-2.0
// Data by MPI.
#pragma once

#include <mpi.h>

#include <optional>
#include <vector>

#include "core/base/system/owner_thread.h"
#include "ops/link/link.h"
#include "ops/mpi/mpi_group.h"

namespace rueda {

// Purpose: the Link over nonblocking MPI point to point; a Ticket is an index into a table of messages. Owned
// by the background thread.
class MpiLink final : public Link {
 public:
  explicit MpiLink(MpiGroup& group) : group_(group) {}

  Ticket post_send(Rank peer, ConstBytes bytes, Tag tag) override;
  Ticket post_receive(Rank peer, MutableBytes bytes, Tag tag) override;
  Tag largest_tag() const override;
  std::optional<std::size_t> done(Ticket ticket) override;
  void cancel(Ticket ticket) override;

 private:
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;
    Rank peer = 0;
    std::optional<std::size_t> sends;  // so many bytes; nothing: it receives
  };

  void check_peer(int rc, Rank peer);
  Ticket free_ticket(Rank peer, std::optional<std::size_t> sends);

  MpiGroup& group_;
  std::vector<Message> messages_;
  std::vector<Ticket> free_;
  OwnerThread owner_;
};

}  // namespace rueda
