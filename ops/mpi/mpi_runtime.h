// SPDX-License-Identifier: Apache-2.0
// MPI's life in this process.
#pragma once

#include <mpi.h>

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "ops/bootstrap/address/agent_line.h"
#include "ops/mpi/mpi_group.h"
#include "rueda/types.h"

namespace rueda {

// Purpose: MPI as Rueda uses it, with the groups of ranks that have made up jobs. MPI is started once for the
// process, or adopted from the program. A call that waits for every rank runs on a thread of its own or
// without blocking, so nobody waits longer than he wants. The mutex guards the one object while it starts.
// Then it is only read; it lives until the process ends. An exit handler finalises MPI if we began it, unless
// a peer was lost (MPI_Finalize would wait for it).
class MpiRuntime {
 public:
  // Throws BackendError if MPI gives less than MPI_THREAD_MULTIPLE, cannot start or is over, and PeerLost if
  // it has not started within `timeout` seconds. It goes on starting: a later call waits again.
  static MpiRuntime& instance(double timeout);

  // The processes with these ranks in MPI_COMM_WORLD; empty: all. Each of them calls it, with the same list.
  // Throws PeerLost as instance() does, and InvalidArgument for an impossible list.
  MpiGroup& group(std::vector<Rank> world_ranks, double timeout);

  const std::string& host() const { return host_; }
  AgentLine& agent() { return AgentLine::of_this_process(); }

  // Another reason, or one less, for which MPI must not be finalised: it would wait for a rank.
  static void hold_back_finalize(int change);
  // A peer is gone, for good.
  static void mark_lost() { hold_back_finalize(+1); }

 private:
  enum class Stage { untouched, beginning, ready };

  MpiRuntime() = default;
  bool start(Time deadline);
  void begin();

  std::mutex mutex_;
  Stage stage_ = Stage::untouched;
  std::shared_future<int> level_;                                  // of threads, once MPI has begun
  std::map<std::vector<Rank>, std::unique_ptr<MpiGroup>> groups_;  // by their ranks in MPI_COMM_WORLD
  std::string host_;
};

}  // namespace rueda
