// SPDX-License-Identifier: Apache-2.0
// The flags of the page of a job, of --status and --dump.
#pragma once

#include <map>
#include <string_view>

#include "launcher/cli/elastic_options.h"

namespace rueda {

const std::map<std::string_view, SetFlag>& page_flags();

// What stands behind --status: a process number, --json, or nothing. Throws UsageError.
void settle_status(LaunchOptions& options);
// The same behind --dump, without --json.
void settle_dump(const LaunchOptions& options);

}  // namespace rueda
