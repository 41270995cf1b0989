// SPDX-License-Identifier: Apache-2.0
// The flags of the page of a job, and of --status.
#pragma once

#include <string>

namespace rueda {

struct LaunchOptions;

// "[HOST:]PORT". Throws UsageError.
void set_page(LaunchOptions& options, const std::string& text);

// What stands behind --status: a process number, --json, or nothing. Throws UsageError.
void settle_status(LaunchOptions& options);

}  // namespace rueda
