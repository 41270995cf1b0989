// SPDX-License-Identifier: Apache-2.0
// Turns the error code of an MPI call into a BackendError.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <limits>
#include <string>

#include "core/base/error.h"

namespace rueda {

// Throws BackendError naming the call and MPI's own words unless `rc` is MPI_SUCCESS.
inline void check(int rc, const char* call) {
  if (rc == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(rc, words, &length);
  throw BackendError(Status::backend_error(std::string(call) + " failed: " + std::string(words, length)));
}

// Bytes of one message. MPI before its version 4 counts by int; what is longer travels in chunks.
inline int message_count(std::size_t bytes) {
  if (bytes <= std::numeric_limits<int>::max()) return static_cast<int>(bytes);
  throw BackendError(Status::backend_error("a message of " + std::to_string(bytes) +
                                           " bytes cannot go by MPI, which takes less than 2 GiB: set "
                                           "RUEDA_RING_CHUNK to less, on all ranks."));
}

}  // namespace rueda
