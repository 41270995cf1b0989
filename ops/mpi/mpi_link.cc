// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/mpi_link.h"

#include "core/engine/work.h"

namespace rueda {

Ticket MpiLink::post_send(Rank peer, ConstBytes bytes, Tag tag) {
  owner_.check();
  const Ticket ticket = free_place(peer);
  check_peer(MPI_Isend_c(bytes.data(), static_cast<MPI_Count>(bytes.size()), MPI_BYTE, peer,
                         static_cast<int>(tag), mpi_.data(), &messages_[ticket].request),
             peer);
  return ticket;
}

Ticket MpiLink::post_receive(Rank peer, MutableBytes bytes, Tag tag) {
  owner_.check();
  const Ticket ticket = free_place(peer);
  check_peer(MPI_Irecv_c(bytes.data(), static_cast<MPI_Count>(bytes.size()), MPI_BYTE, peer,
                         static_cast<int>(tag), mpi_.data(), &messages_[ticket].request),
             peer);
  return ticket;
}

bool MpiLink::done(Ticket ticket) {
  Message& message = messages_[ticket];
  int flag = 0;
  check_peer(MPI_Test(&message.request, &flag, MPI_STATUS_IGNORE), message.peer);
  if (flag != 0) free_.push_back(ticket);
  return flag != 0;
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
  mpi_.mark_lost();
  throw PeerGone{peer};
}

Ticket MpiLink::free_place(Rank peer) {
  if (free_.empty()) {
    free_.push_back(messages_.size());
    messages_.emplace_back();
  }
  const Ticket ticket = free_.back();
  free_.pop_back();
  messages_[ticket] = {MPI_REQUEST_NULL, peer};
  return ticket;
}

}  // namespace rueda
