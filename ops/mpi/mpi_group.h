// SPDX-License-Identifier: Apache-2.0
// The processes that make up a job, as MPI knows them.
#pragma once

#include <mpi.h>

#include <array>
#include <future>
#include <optional>
#include <vector>

#include "core/base/time.h"
#include "rueda/types.h"

namespace rueda {

// Purpose: some ranks of MPI_COMM_WORLD, or all, with two communicators of our own that return errors.
// MpiRuntime makes one for each list of ranks, and its mutex guards the group while it starts. Then it is
// only read, but for the counts of the background thread. Lives until the process ends.
class MpiGroup {
 public:
  // In the order in which the job numbers them; empty: all. Throws InvalidArgument for ranks that do not
  // exist, come twice, or are not this process.
  explicit MpiGroup(std::vector<Rank> world_ranks);

  // Whether every rank of it has called this, which is waited for until then. Goes on from wherever an
  // earlier call gave up.
  bool start(Time deadline);

  // In the job.
  Rank rank() const { return rank_; }
  Rank size() const { return size_; }
  MPI_Comm control() const { return control_; }
  MPI_Comm data() const { return data_; }

  // By their ranks in MPI_COMM_WORLD; empty: all, in their order.
  const std::vector<Rank>& world_ranks() const { return world_ranks_; }
  // Between a rank of the job and the same process in MPI_COMM_WORLD, which may be none of the job's.
  Rank in_world(Rank rank) const { return world_ranks_.empty() ? rank : world_ranks_[rank]; }
  std::optional<Rank> of_world(Rank world_rank) const;

  // For the control messages of the next job: every rank counts its jobs alike.
  int next_job_tag() { return jobs_++ % 32768; }

 private:
  enum class Stage { untouched, grouping, duplicating, ready };

  void begin();
  void duplicate(MPI_Comm base);
  void finish();

  const std::vector<Rank> world_ranks_;
  Stage stage_ = Stage::untouched;
  std::shared_future<MPI_Comm> grouped_;
  std::array<MPI_Request, 2> duplications_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int jobs_ = 0;  // counted by the background thread of each job
  Rank rank_ = 0;
  Rank size_ = 1;
  MPI_Comm control_ = MPI_COMM_NULL;
  MPI_Comm data_ = MPI_COMM_NULL;
};

}  // namespace rueda
