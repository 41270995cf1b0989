// SPDX-License-Identifier: Apache-2.0
// What an MPI call returned, as an error of ours.
#pragma once

#include <mpi.h>

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

}  // namespace rueda
