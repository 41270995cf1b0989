// SPDX-License-Identifier: Apache-2.0
// The flags of the page of a job, of --status, --stacks, --dump and --report.
#pragma once

#include <map>
#include <string_view>

#include "launcher/cli/elastic_options.h"

namespace rueda {

const std::map<std::string_view, SetFlag>& page_flags();

// What stands behind --status or --stacks: a process number, --json, --verbose, or nothing. Throws
// UsageError.
void settle_status(LaunchOptions& options);
// The same behind --dump, without --json.
void settle_dump(const LaunchOptions& options);

// What stands behind --report: summaries and their labels, or a job. Throws UsageError.
void settle_report(LaunchOptions& options);

}  // namespace rueda
