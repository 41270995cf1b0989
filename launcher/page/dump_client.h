// SPDX-License-Identifier: Apache-2.0
// ruedarun --dump: asks a running job for a dump.
#pragma once

#include "launcher/cli/options.h"

namespace rueda {

// Prints the summary and the folder. Returns the exit status.
int ask_for_dump(const LaunchOptions& options);

}  // namespace rueda
