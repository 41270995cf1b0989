// SPDX-License-Identifier: Apache-2.0
// The places where workers of an elastic job run.
#pragma once

#include <optional>
#include <vector>

#include "core/control/membership/generation.h"
#include "launcher/job/placement.h"

namespace rueda {

// Purpose: which worker is in which slot, and which slots may get another one. A slot in which a worker has
// died before it took part in the job is not used again: whatever starts there would die, too. Pure. Owned by
// the main thread of the supervisor.
class WorkerSlots {
 public:
  struct Slot {
    int host = 0;
    int local_rank = 0;
    std::optional<Worker> worker{};  // none: it is free
    bool usable = false;
  };

  // The places of `slots`, of which those of the first `ranks` ranks have workers. Those on other hosts than
  // `hosts` do not count.
  WorkerSlots(const std::vector<HostRanks>& hosts, const std::vector<HostRanks>& slots, int ranks);

  // The agent of the host is there.
  void open(int host);
  int taken() const;  // slots that have workers
  // A free one; null where there is none.
  Slot* free_one();
  // The worker has ended. `took_part`: it has been in a generation that formed.
  void free_slot_of(Worker worker, bool took_part);
  // The agent of the host has gone.
  void lose_host(int host);

 private:
  std::vector<Slot> slots_;
};

}  // namespace rueda
