// SPDX-License-Identifier: Apache-2.0
// TCP for a rank that has other parts already.
#pragma once

#include "core/engine/runtime_components.h"
#include "ops/buffers/work_memory.h"

namespace rueda {

// Purpose: which work TCP has in this job. A plain value, the same on all ranks.
struct TcpUse {
  bool one_host = false;   // a launcher says that all ranks are here
  bool only_link = false;  // there is no MPI: TCP carries everything that shared memory does not
};

// Gives `components`, of one rank of several, the tcp backend before theirs. It runs Plans once ranks of
// several hosts have met, unless a setting, or the card that some rank has not, leaves data to the others.
// Then a job of which two ranks do not reach each other fails to start, in words. All ranks of a job have it,
// so that rank 0 can name a backend by its number.
void add_tcp(RuntimeComponents& components, const TcpUse& use = {}, Memory memory = Memory());

}  // namespace rueda
