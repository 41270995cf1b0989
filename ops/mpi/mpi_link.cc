// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/mpi_link.h"

#include "core/engine/work.h"
#include "ops/mpi/mpi_check.h"
#include "ops/mpi/mpi_runtime.h"

namespace rueda {

Ticket MpiLink::post_send(Rank peer, ConstBytes bytes, Tag tag) {
  owner_.check();
  const Ticket ticket = free_ticket(peer, bytes.size());
  check_peer(MPI_Isend(bytes.data(), message_count(bytes.size()), MPI_BYTE, peer, static_cast<int>(tag),
                       group_.data(), &messages_[ticket].request),
             peer);
  return ticket;
}

Ticket MpiLink::post_receive(Rank peer, MutableBytes bytes, Tag tag) {
  owner_.check();
  const Ticket ticket = free_ticket(peer, std::nullopt);
  check_peer(MPI_Irecv(bytes.data(), message_count(bytes.size()), MPI_BYTE, peer, static_cast<int>(tag),
                       group_.data(), &messages_[ticket].request),
             peer);
  return ticket;
}

std::optional<std::size_t> MpiLink::done(Ticket ticket) {
  Message& message = messages_[ticket];
  int flag = 0;
  MPI_Status status;
  check_peer(MPI_Test(&message.request, &flag, &status), message.peer);
  if (flag == 0) return std::nullopt;
  free_.push_back(ticket);
  if (message.sends) return message.sends;
  int came = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &came), "MPI_Get_count");
  return static_cast<std::size_t>(came);
}

// MPI promises no more than 32767; MPICH has 2^29 or more.
Tag MpiLink::largest_tag() const {
  int* most = nullptr;
  int known = 0;
  check(MPI_Comm_get_attr(group_.data(), MPI_TAG_UB, static_cast<void*>(&most), &known), "MPI_TAG_UB");
  return known != 0 ? static_cast<Tag>(*most) : 32767;
}

// A receive that is cancelled gets nothing any more. A send cannot be called back; only its request is given
// up. One that has failed is gone already.
void MpiLink::cancel(Ticket ticket) {
  MPI_Request& request = messages_[ticket].request;
  if (request != MPI_REQUEST_NULL) {
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
  free_.push_back(ticket);
}

// With MPICH a call about one message fails when its peer cannot be reached.
void MpiLink::check_peer(int rc, Rank peer) {
  if (rc == MPI_SUCCESS) return;
  MpiRuntime::mark_lost();
  throw PeerGone{peer};
}

Ticket MpiLink::free_ticket(Rank peer, std::optional<std::size_t> sends) {
  if (free_.empty()) {
    free_.push_back(messages_.size());
    messages_.emplace_back();
  }
  const Ticket ticket = free_.back();
  free_.pop_back();
  messages_[ticket] = {MPI_REQUEST_NULL, peer, sends};
  return ticket;
}

}  // namespace rueda
