// SPDX-License-Identifier: Apache-2.0
// Questions to running jobs of this user on this machine.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "launcher/cli/options.h"

namespace rueda {

// A job and its answer. A plain value.
struct JobAnswer {
  pid_t process = 0;  // of ruedarun
  nlohmann::json answer;
};

// The status of each job; of that job alone, if the command of `options` is a process number. Says on
// standard error which jobs do not answer.
std::vector<JobAnswer> running_jobs(const LaunchOptions& options);
// The only one of them. Nothing where there is none, or there are several: standard error says so.
// `option`: needs one job.
std::optional<JobAnswer> only_job(const LaunchOptions& options, const std::string& option);
// An object; nothing where no job answers. `method`: of HTTP. Agents may have to ask their ranks first.
std::optional<nlohmann::json> ask_job(pid_t process, const std::string& method, const std::string& path);
// On standard error: ask_job() has got nothing.
void tell_no_answer(pid_t process);
// On standard error: running_jobs() has found none.
void tell_no_job(const LaunchOptions& options);

}  // namespace rueda
