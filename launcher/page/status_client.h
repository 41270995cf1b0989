// SPDX-License-Identifier: Apache-2.0
// ruedarun --status: asks a running job how it is.
#pragma once

#include "launcher/cli/options.h"

namespace rueda {

// Prints the status; of several jobs, without a process number, a line each. Returns the exit status.
int show_status(const LaunchOptions& options);

}  // namespace rueda
