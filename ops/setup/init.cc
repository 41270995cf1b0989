// SPDX-License-Identifier: Apache-2.0
#include "rueda/rueda.h"

#include "core/base/log.h"
#include "core/base/unknown_variables.h"
#include "core/default_runtime.h"
#include "ops/setup/defaults.h"

namespace rueda {

void init(const std::vector<std::vector<Rank>>& process_sets, const std::vector<Rank>& ranks) {
  check_not_forked();
  if (is_initialized()) {  // checks that the job can still go on
    RuntimeComponents components;
    components.process_sets = process_sets;
    return init(std::move(components));
  }
  const Config config = config_from_environment();
  RuntimeComponents components = ops::defaults(config, ranks);
  components.process_sets = process_sets;
  configure_log(*log_level_from(config.log_level), config.log_hide_time, components.rank);
  if (!components.found_by.empty()) log(LogLevel::info, "{}", components.found_by);
  if (components.rank == 0) {
    for (const std::string& words : misspelled_settings()) log(LogLevel::warning, "{}", words);
  }
  init(std::move(components));
}

}  // namespace rueda
