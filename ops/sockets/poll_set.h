// SPDX-License-Identifier: Apache-2.0
// Sleeps until one of several descriptors is ready.
#pragma once

#include <poll.h>

#include <vector>

#include "core/base/time.h"

namespace rueda {

// Purpose: descriptors for one sleep. A value, used by one thread.
class PollSet {
 public:
  // Ready when there is something to read, or with `write` when there is room, too. None (-1) is never ready.
  void add(int descriptor, bool write = false);
  // For `longest` at most. Without descriptors it sleeps as long.
  void sleep(Duration longest);

 private:
  std::vector<pollfd> files_;
};

}  // namespace rueda
