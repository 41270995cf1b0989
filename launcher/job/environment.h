// SPDX-License-Identifier: Apache-2.0
// What stands in the environment of each rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/protocol/authentication.h"
#include "launcher/system/signals.h"

namespace rueda {

// What Hydra says about a rank.
struct HydraPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
};

// Where a rank stands: in the job, on its host, and among the ranks with its local rank on all hosts
// ("cross").
struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
  bool operator==(const Place&) const = default;
};

// How many ranks each host of "a:2,b" takes, in the order of the list; a host without a number takes one.
std::vector<int> slots_of(const std::string& hosts);

// Hydra fills `slots` in order, again from the start when they do not suffice. Where that does not agree with
// what Hydra says (another resource manager has placed the ranks), hosts are taken to be equally full.
Place place_of(const HydraPlace& hydra, const std::vector<int>& slots);

// max(1, cores this process may use / ranks on this host): so that the ranks of a host do not fight for its
// cores.
int threads_for_each(int local_size);

// By ruedarun, before it reads the settings: what the command line has chosen.
void export_choices(const LaunchOptions& options);

// By the supervisor, before it starts mpiexec, which hands it on to every rank. What the user has set stays.
// Ranks are to have the signals as ruedarun has inherited them.
void export_job_environment(const std::string& hosts, const std::string& addresses, const Token& token,
                            const SignalState& signals);

// By the agent: RUEDA_RANK and so on, OMP_NUM_THREADS. Returns the rank's place.
Place export_rank_environment();

// Where the agent finds ruedarun, what proves that they belong together, and how the rank is to start.
struct Supervision {
  std::string addresses;
  std::optional<Token> token;
  SignalState signals;
};

// By the agent: takes the launcher's own variables out of the environment.
Supervision take_supervision();

}  // namespace rueda
