// SPDX-License-Identifier: Apache-2.0
// MPI's life in this process.
#pragma once

#include <mpi.h>

#include <array>
#include <future>
#include <mutex>
#include <string>

#include "core/base/time.h"
#include "core/base/types.h"
#include "ops/mpi/agent_line.h"

namespace rueda {

// Purpose: MPI as Rueda uses it: started (or adopted from the program) once for the process, with two
// communicators of our own that return errors. What blocks until every rank has come is done on a thread of
// its own (MPI_Init_thread) or without blocking, so that nobody waits for longer than he wants. The one
// object is guarded by its mutex while it starts, then only read; it lives until the process ends. An exit
// handler finalises MPI if we began it, unless a peer was lost (MPI_Finalize would wait for it).
class MpiRuntime {
 public:
  // Throws BackendError if MPI gives less than MPI_THREAD_MULTIPLE, cannot start or is over, and PeerLost if
  // it has not started within `patience` seconds. It goes on starting: a later call waits again.
  static MpiRuntime& instance(double patience);

  Rank rank() const { return rank_; }
  Rank size() const { return size_; }
  const std::string& host() const { return host_; }
  MPI_Comm control() const { return control_; }
  MPI_Comm data() const { return data_; }
  AgentLine& agent() { return agent_; }  // of the coordinator thread

  // For the control messages of the next job: every rank counts its jobs alike.
  int next_job_tag() { return jobs_++ % 32768; }

  // MPI must not be finalised: a peer is gone.
  void mark_lost();

 private:
  enum class Stage { untouched, beginning, duplicating, ready };

  MpiRuntime() = default;
  void start(Time deadline);
  void begin();
  void duplicate_world();
  void finish();

  std::mutex mutex_;
  Stage stage_ = Stage::untouched;
  std::shared_future<int> level_;  // of threads, once MPI has begun
  std::array<MPI_Request, 2> duplications_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int jobs_ = 0;  // counted by the coordinator of each job
  Rank rank_ = 0;
  Rank size_ = 1;
  std::string host_;
  MPI_Comm control_ = MPI_COMM_NULL;
  MPI_Comm data_ = MPI_COMM_NULL;
  AgentLine agent_;
};

}  // namespace rueda
