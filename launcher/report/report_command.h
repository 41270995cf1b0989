// SPDX-License-Identifier: Apache-2.0
// ruedarun --report FILE.html SUMMARY.json...: a page that compares runs.
#pragma once

#include "launcher/cli/options.h"

namespace rueda {

// Reads the summaries that stand in `options.command`, and writes the page; prints its name. Throws
// UsageError for a summary that cannot be used: then no page is written. Throws std::runtime_error if the
// page cannot be written.
int report_runs(const LaunchOptions& options);

}  // namespace rueda
