// SPDX-License-Identifier: Apache-2.0
// ruedarun --doctor: examines the hosts of a job before it starts.
#pragma once

#include "core/base/config.h"
#include "launcher/cli/options.h"

namespace rueda {

// Prints the findings. Returns 0 without an error among them, 1 with one, 128 + S after signal S. Throws
// UsageError, as a job's start does.
int examine_hosts(const LaunchOptions& options, const Config& config);

}  // namespace rueda
