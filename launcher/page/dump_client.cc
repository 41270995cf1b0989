// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/dump_client.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "launcher/page/job_client.h"

namespace rueda {

int ask_for_dump(const LaunchOptions& options) {
  const std::optional<JobAnswer> job = only_job(options, "--dump");
  if (!job) return 1;
  const std::optional<nlohmann::json> dump = ask_job(job->process, "POST", "/dump");
  if (!dump) {
    tell_no_answer(job->process);
    return 1;
  }
  if (const std::string error = dump->value("error", ""); !error.empty()) {
    fmt::print(stderr, "ruedarun: {}\n", error);
    return 1;
  }
  fmt::print("{}\n{}: job.txt, and the files of {} ranks for torchfrtrace\n", dump->value("summary", ""),
             dump->value("folder", ""), dump->value("files", nlohmann::json::array()).size() - 1);
  return 0;
}

}  // namespace rueda
