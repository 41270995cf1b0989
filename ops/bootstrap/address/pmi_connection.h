// SPDX-License-Identifier: Apache-2.0
// PMI, by which a process manager such as MPICH's mpiexec or Slurm's srun lets its processes exchange values;
// without MPI.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "core/base/system/descriptor.h"
#include "ops/bootstrap/address/pmi_dialect.h"
#include "ops/bootstrap/address/root_address.h"

namespace rueda {

// From PMI_FD, PMI_RANK, PMI_SIZE and PMI_JOBID; nothing where one of the first three is missing, or the
// descriptor is no socket.
std::optional<PmiProcess> pmi_process();

// Purpose: this process's line to the process manager. A value that one process puts is seen by the others
// after a barrier of all. One object per process, used by one thread at a time. When it ends, the process
// manager hears that the process has come to a regular end, unless a barrier is still open.
class PmiConnection {
 public:
  // Throws BackendError where the process manager does not speak PMI.
  explicit PmiConnection(const PmiProcess& process);
  ~PmiConnection();
  PmiConnection(const PmiConnection&) = delete;
  PmiConnection& operator=(const PmiConnection&) = delete;

  // All of these throw BackendError.
  void put(const std::string& key, const std::string& value);
  void enter_barrier();
  // Whether all processes have entered it since. Does not wait.
  bool barrier_is_over();
  std::string get(const std::string& key);
  // Keys of PMI-1 keep their first value, so each job of the process has a key of its own.
  int next_job() { return jobs_++; }

 private:
  void introduce(const PmiProcess& process);
  void say(const std::string& bytes);
  std::optional<std::string> message(int milliseconds);
  std::string answer(const PmiRequest& request);

  Descriptor socket_;
  const pid_t process_;
  std::unique_ptr<const PmiDialect> dialect_;
  bool greeted_ = false;  // before, messages are lines in both dialects
  std::string space_;     // that the keys belong to
  std::string heard_;
  bool in_barrier_ = false;
  int jobs_ = 0;
};

// Rank 0's address under a key of the process manager. All processes take part in each job.
std::unique_ptr<RootAddress> address_by_pmi(std::shared_ptr<PmiConnection> connection);

}  // namespace rueda
