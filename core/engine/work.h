// SPDX-License-Identifier: Apache-2.0
// One operation while it moves bytes.
#pragma once

#include <string_view>

#include "core/base/types.h"

namespace rueda {

// What a Work throws when a library tells that a peer cannot be reached any more.
struct PeerGone {
  Rank rank = 0;
};

// Purpose: a running operation as a machine of small steps. Made by a Backend for one Plan, owned and stepped
// by the coordinator thread alone, destroyed when done (or, after a failure, undone: the destructor gives
// back what it holds). A step never blocks, spins or sleeps. It may throw when a library fails; that ends the
// job.
class Work {
 public:
  enum class Step {
    again,    // something moved; step soon
    waiting,  // nothing to do until somebody else moves
    done,
  };

  virtual ~Work() = default;
  virtual Step step() = 0;
  // What it is doing now, for reports: a string that lives for ever.
  virtual std::string_view phase() const = 0;
};

}  // namespace rueda
