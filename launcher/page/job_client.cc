// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/job_client.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdio>
#include <utility>

#include "core/base/number.h"
#include "launcher/page/jobs_folder.h"
#include "launcher/view/status_text.h"

namespace rueda {
namespace {

using nlohmann::json;

constexpr int kSecondsToRead = 6, kSecondsToAct = 80;
constexpr std::size_t kLongest = 1 << 30;  // a job of 4096 ranks tells some MB of each

std::optional<json> ask(const std::string& socket, const std::string& method, const std::string& path) {
  httplib::Client client(socket);
  client.set_address_family(AF_UNIX);
  client.set_connection_timeout(kSecondsToRead);
  client.set_read_timeout(method == "GET" ? kSecondsToRead : kSecondsToAct);
  std::string text;
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    text.append(data, size);
    return text.size() < kLongest;
  };
  const httplib::Result answer = client.send(request);
  if (!answer || answer->status != 200) return std::nullopt;
  json told = json::parse(text, nullptr, false);
  return told.is_object() ? std::optional(std::move(told)) : std::nullopt;
}

pid_t wanted_process(const LaunchOptions& options) {
  return options.command.empty() ? 0 : number_from<pid_t>(options.command.front()).value_or(0);
}

}  // namespace

std::optional<json> ask_job(pid_t process, const std::string& method, const std::string& path) {
  const std::optional<std::string> folder = jobs_folder_of(process);
  return folder ? ask(socket_of_job(*folder, process), method, path) : std::nullopt;
}

std::vector<JobAnswer> running_jobs(const LaunchOptions& options) {
  std::vector<JobAnswer> jobs;
  const pid_t wanted = wanted_process(options);
  const std::optional<std::string> folder = wanted != 0 ? jobs_folder_of(wanted) : jobs_folder();
  if (!folder) return jobs;
  for (const pid_t process : jobs_in(*folder)) {
    if (wanted != 0 && process != wanted) continue;
    if (std::optional<json> status = ask(socket_of_job(*folder, process), "GET", "/status"))
      jobs.push_back({process, std::move(*status)});
    else
      tell_no_answer(process);
  }
  return jobs;
}

std::optional<JobAnswer> only_job(const LaunchOptions& options, const std::string& option) {
  std::vector<JobAnswer> jobs = running_jobs(options);
  if (jobs.size() == 1) return std::move(jobs.front());
  if (jobs.empty()) {
    tell_no_job(options);
    return std::nullopt;
  }
  fmt::print(stderr, "ruedarun: several jobs run; name one of them: ruedarun {} PID\n", option);
  for (const JobAnswer& job : jobs) fmt::print(stderr, "{}\n", status_line(job.process, job.answer));
  return std::nullopt;
}

void tell_no_answer(pid_t process) {
  fmt::print(stderr, "ruedarun: the job of process {} does not answer\n", process);
}

void tell_no_job(const LaunchOptions& options) {
  if (const pid_t wanted = wanted_process(options); wanted != 0)
    fmt::print(stderr,
               "ruedarun: no job of this user has the process number {} (or it runs with --no-page)\n",
               wanted);
  else
    fmt::print(stderr,
               "ruedarun: no job of this user runs on this machine (or each with --no-page, or with another "
               "XDG_RUNTIME_DIR: name its process number)\n");
}

}  // namespace rueda
