// SPDX-License-Identifier: Apache-2.0
// The Runtime of the process: its start from parts, its end, and the jobs it has had.
#pragma once

#include <cstdint>
#include <vector>

#include "core/engine/runtime.h"
#include "core/engine/runtime_components.h"
#include "rueda/process_set.h"
#include "rueda/status.h"

namespace rueda {

// Starts the default Runtime from `components`; see init() of rueda/rueda.h for the errors.
void init(RuntimeComponents components);

// Why the last job of this process could not go on, which is final; ok if there is no such thing.
Status final_failure();

// Grows with each job that this process begins, by init(). An object may outlive the one it was made in.
std::uint64_t jobs_begun();
// Purpose: names a job of the default Runtime. A value.
struct JobReference {
  std::uint64_t number = 0;      // jobs_begun() in it
  std::vector<Rank> started_as;  // Runtime::started_as()
};
// Throws NotInitialized where there is none.
JobReference present_job();
// `scope`, of that job, or what stands for it in the present one: all ranks, or the set of the same ranks
// that init() was given. Throws NotInitialized where there is none, and where the present job is of other
// processes.
Scope in_present_job(const Scope& scope, const JobReference& job);

// Throws NotInitialized in a child that was forked after init(): it has no background thread, and its
// parent's MPI.
void check_not_forked();

}  // namespace rueda
