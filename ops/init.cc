// SPDX-License-Identifier: Apache-2.0
#include "ops/init.h"

#include "core/base/log.h"
#include "core/rueda.h"
#include "ops/defaults.h"

namespace rueda {

void init() {
  check_not_forked();
  if (is_initialized()) return init(Parts{});  // checks that the job can still go on
  const Config config = config_from_environment();
  Parts parts = ops::defaults(config);
  configure_log(*log_level_from(config.log_level), config.log_hide_time, parts.rank);
  init(std::move(parts));
}

}  // namespace rueda
