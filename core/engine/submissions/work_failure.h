// SPDX-License-Identifier: Apache-2.0
// Exceptions of a Work that cannot go on.
#pragma once

#include <string>

#include "rueda/types.h"

namespace rueda {

// A Work throws this when a library says that a peer cannot be reached any more.
struct PeerGone {
  Rank rank = 0;
};

// A Work throws this when its rank lacks something for the Plan, such as memory, and the Work can still be
// abandoned. Then one Plan fails, not the job.
struct WorkFailure {
  std::string what;          // "it has no memory for ...", of this rank
  bool is_mismatch = false;  // what other ranks give does not fit
};

}  // namespace rueda
