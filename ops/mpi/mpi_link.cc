// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/mpi_link.h"

#include "ops/mpi/mpi_check.h"

namespace rueda {

Ticket MpiLink::post_send(Rank peer, ConstBytes bytes, Tag tag) {
  owner_.check();
  const Ticket ticket = free_place();
  check(MPI_Isend_c(bytes.data(), static_cast<MPI_Count>(bytes.size()), MPI_BYTE, peer, static_cast<int>(tag),
                    mpi_.data(), &requests_[ticket]),
        "MPI_Isend");
  return ticket;
}

Ticket MpiLink::post_receive(Rank peer, MutableBytes bytes, Tag tag) {
  owner_.check();
  const Ticket ticket = free_place();
  check(MPI_Irecv_c(bytes.data(), static_cast<MPI_Count>(bytes.size()), MPI_BYTE, peer, static_cast<int>(tag),
                    mpi_.data(), &requests_[ticket]),
        "MPI_Irecv");
  return ticket;
}

bool MpiLink::done(Ticket ticket) {
  int flag = 0;
  check(MPI_Test(&requests_[ticket], &flag, MPI_STATUS_IGNORE), "MPI_Test");
  if (flag != 0) free_.push_back(ticket);
  return flag != 0;
}

// A receive that is cancelled gets nothing any more. A send cannot be called back; only its request is given
// up.
void MpiLink::cancel(Ticket ticket) {
  MPI_Cancel(&requests_[ticket]);
  MPI_Request_free(&requests_[ticket]);
  free_.push_back(ticket);
}

Ticket MpiLink::free_place() {
  if (free_.empty()) {
    free_.push_back(requests_.size());
    requests_.push_back(MPI_REQUEST_NULL);
  }
  const Ticket ticket = free_.back();
  free_.pop_back();
  return ticket;
}

}  // namespace rueda
