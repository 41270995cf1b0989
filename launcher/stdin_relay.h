// SPDX-License-Identifier: Apache-2.0
// Hands standard input on to mpiexec, and so to rank 0.
#pragma once

#include <poll.h>

#include <string>

#include "launcher/descriptor.h"

namespace rueda {

// Purpose: mpiexec is in a process group of its own, so that Ctrl-C reaches it by ruedarun only; it may
// therefore not read a terminal itself. Reads ahead one piece at most; never blocks. Owner: the main thread.
class StdinRelay {
 public:
  explicit StdinRelay(Descriptor to);

  // What to wait for next; descriptor -1 when all is done.
  pollfd wanted() const;
  void move();

 private:
  Descriptor to_;
  std::string pending_;
};

}  // namespace rueda
