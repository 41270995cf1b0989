// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/status_client.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/page/job_client.h"
#include "launcher/view/stack_groups.h"
#include "launcher/view/status_text.h"

namespace rueda {
namespace {

using nlohmann::json;

void print_list(const std::vector<JobAnswer>& jobs, bool as_json) {
  json list = json::array();
  for (const JobAnswer& job : jobs) {
    if (!as_json) fmt::print("{}\n", status_line(job.process, job.answer));
    list.push_back({{"process", job.process},
                    {"command", job.answer.at("job").at("command")},
                    {"line", job.answer.at("update").at("line")}});
  }
  if (as_json) fmt::print("{}\n", list.dump());
}

}  // namespace

int show_status(const LaunchOptions& options) {
  std::vector<JobAnswer> jobs = running_jobs(options);
  if (jobs.empty()) {
    tell_no_job(options);
    return 1;
  }
  if (jobs.size() > 1) {
    print_list(jobs, options.json);
    return 0;
  }
  json& status = jobs.front().answer;
  const std::optional<json> page = ask_job(jobs.front().process, "GET", "/page");
  if (page) status.update(*page);
  if (options.json)
    fmt::print("{}\n", status.dump());
  else
    fmt::print("{}{}", status_text(status), page ? fmt::format("page {}\n", page->value("page", "")) : "");
  return 0;
}

int show_stacks(const LaunchOptions& options) {
  const std::optional<JobAnswer> job = only_job(options, "--stacks");
  if (!job) return 1;
  const std::optional<json> stacks = ask_job(job->process, "POST", "/stacks");
  if (!stacks) {
    tell_no_answer(job->process);
    return 1;
  }
  if (options.json)
    fmt::print("{}\n", stacks->dump());
  else
    fmt::print("{}", options.verbose ? stacks->at("text").get<std::string>() : stacks_text(*stacks, false));
  return 0;
}

}  // namespace rueda
