// SPDX-License-Identifier: Apache-2.0
// The environment of each rank.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/job/placement.h"

namespace rueda {

using EnvironmentMap = std::map<std::string, std::string>;

// All variables of this process as ranks are to have them ("NAME=value"), without those of a launcher around
// it, and with defaults for those that the user has not set.
std::vector<std::string> job_environment();
// Returns the address of rank 0 for env:// of torch.distributed: MASTER_ADDR, the first host, and
// MASTER_PORT, a free port of this host. Variables that the user has set win.
EnvironmentMap master_address(const std::string& first_host, bool one_host);

// max(1, cores this process may use / ranks on this host): so that the ranks of a host do not fight for its
// cores.
int threads_for_each(int local_size);

// The variables that tell a rank its slot, beside those of the job. `host`: as the user names it.
EnvironmentMap rank_variables(const SlotInfo& slot, const std::string& host);
// The same for a worker of an elastic job, which is not offered MPI: they hold as it starts. A worker that
// joins later becomes the last rank. `one_host`: all workers are on this one, also later ones.
EnvironmentMap worker_variables(const SlotInfo& slot, const std::string& host, bool one_host);

// `job` with `own` in place of variables of the same names. A variable of `defaults` counts where the job has
// none.
std::vector<std::string> rank_environment(const std::vector<std::string>& job, const EnvironmentMap& own,
                                          const EnvironmentMap& defaults);

}  // namespace rueda
