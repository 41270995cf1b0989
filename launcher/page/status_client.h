// SPDX-License-Identifier: Apache-2.0
// ruedarun --status and --stacks: how a running job is.
#pragma once

#include "launcher/cli/options.h"

namespace rueda {

// Prints the status; of several jobs, without a process number, a line each. Returns the exit status.
int show_status(const LaunchOptions& options);

// Prints the stacks of the main threads of all ranks, with --verbose of all threads. Of several jobs the user
// has to name one. Returns the exit status.
int show_stacks(const LaunchOptions& options);

}  // namespace rueda
