// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/status_client.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/number.h"
#include "launcher/page/jobs_folder.h"
#include "launcher/view/status_text.h"

namespace rueda {
namespace {

using nlohmann::json;

constexpr int kSeconds = 10;
constexpr std::size_t kLongest = 256 << 20;  // a job of 4096 ranks tells some MB

struct Job {
  int process = 0;
  json status;
};

// Nothing where no job answers there.
std::optional<json> ask(const std::string& socket) {
  httplib::Client client(socket);
  client.set_address_family(AF_UNIX);
  client.set_connection_timeout(kSeconds);
  client.set_read_timeout(kSeconds);
  std::string text;
  const httplib::Result answer = client.Get("/status", [&](const char* data, std::size_t size) {
    text.append(data, size);
    return text.size() < kLongest;
  });
  if (!answer || answer->status != 200) return std::nullopt;
  json status = json::parse(text, nullptr, false);
  return status.is_object() ? std::optional(std::move(status)) : std::nullopt;
}

std::vector<Job> running_jobs(int wanted) {
  std::vector<Job> jobs;
  const std::optional<std::string> folder = jobs_folder();
  if (!folder) return jobs;
  for (const pid_t process : jobs_in(*folder)) {
    if (wanted != 0 && process != wanted) continue;
    if (std::optional<json> status = ask(socket_of_job(*folder, process)))
      jobs.push_back({process, std::move(*status)});
  }
  return jobs;
}

void print_list(const std::vector<Job>& jobs, bool as_json) {
  json list = json::array();
  for (const Job& job : jobs) {
    if (!as_json) fmt::print("{}\n", status_line(job.process, job.status));
    list.push_back({{"process", job.process},
                    {"command", job.status.at("job").at("command")},
                    {"line", job.status.at("update").at("line")}});
  }
  if (as_json) fmt::print("{}\n", list.dump());
}

}  // namespace

int show_status(const LaunchOptions& options) {
  const int wanted = options.command.empty() ? 0 : number_from<int>(options.command.front()).value_or(0);
  const std::vector<Job> jobs = running_jobs(wanted);
  if (jobs.empty()) {
    if (wanted != 0)
      fmt::print(stderr,
                 "ruedarun: no job of this user has the process number {} (or it runs with --no-page)\n",
                 wanted);
    else
      fmt::print(stderr, "ruedarun: no job of this user runs on this machine (or each with --no-page)\n");
    return 1;
  }
  if (jobs.size() > 1) {
    print_list(jobs, options.json);
  } else if (options.json) {
    fmt::print("{}\n", jobs.front().status.dump());
  } else {
    fmt::print("{}", status_text(jobs.front().status));
  }
  return 0;
}

}  // namespace rueda
