// SPDX-License-Identifier: Apache-2.0
// Turns the result of an NCCL call into a BackendError.
#pragma once

#include <string>

#include "core/base/error.h"
#include "ops/nccl/nccl_library.h"

namespace rueda {

// Throws BackendError naming the call and NCCL's own words unless `rc` is ncclSuccess, or ncclInProgress: the
// communicator will tell.
inline void check(const NcclFunctions& nccl, ncclResult_t rc, const char* call, ncclComm_t comm = nullptr) {
  if (rc == ncclSuccess || rc == ncclInProgress) return;
  std::string words = std::string(call) + " failed: " + nccl.get_error_string(rc);
  const char* last = nccl.get_last_error(comm);
  if (last != nullptr && *last != '\0') words += std::string(" (") + last + ")";
  throw BackendError(Status::backend_error(words));
}

}  // namespace rueda
