// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/dump_client.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/page/job_client.h"

namespace rueda {
namespace {

void tell_which_jobs(const std::vector<JobAnswer>& jobs) {
  std::string list;
  for (const JobAnswer& job : jobs) list += fmt::format("{}{}", list.empty() ? "" : " or ", job.process);
  fmt::print(stderr, "ruedarun: several jobs run; name one of them: ruedarun --dump {}\n", list);
}

}  // namespace

int ask_for_dump(const LaunchOptions& options) {
  const std::vector<JobAnswer> jobs = running_jobs(options);
  if (jobs.size() == 1) {
    const std::optional<nlohmann::json> dump = ask_job(jobs.front().process, "POST", "/dump");
    const std::string error = dump ? dump->value("error", "") : "the job does not answer";
    if (error.empty()) {
      fmt::print("{}\n{}: job.txt, and the files of {} ranks for torchfrtrace\n", dump->value("summary", ""),
                 dump->value("folder", ""), dump->value("files", nlohmann::json::array()).size() - 1);
      return 0;
    }
    fmt::print(stderr, "ruedarun: {}\n", error);
  } else if (jobs.empty()) {
    tell_no_job(options);
  } else {
    tell_which_jobs(jobs);
  }
  return 1;
}

}  // namespace rueda
