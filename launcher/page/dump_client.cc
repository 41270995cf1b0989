// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/dump_client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <httplib.h>
#include <sys/socket.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/number.h"
#include "launcher/page/jobs_folder.h"

namespace rueda {
namespace {

using nlohmann::json;

constexpr int kSeconds = 30;  // ranks may take their time
constexpr std::size_t kLongest = 1 << 20;

// Nothing where no job answers there.
std::optional<json> ask(const std::string& socket) {
  httplib::Client client(socket);
  client.set_address_family(AF_UNIX);
  client.set_connection_timeout(kSeconds);
  client.set_read_timeout(kSeconds);
  const httplib::Result answer = client.Post("/dump");
  if (!answer || answer->status != 200 || answer->body.size() > kLongest) return std::nullopt;
  json dump = json::parse(answer->body, nullptr, false);
  return dump.is_object() ? std::optional(std::move(dump)) : std::nullopt;
}

// Of the job that is meant; 0 where that is not clear, which the user is told.
pid_t process_of_job(const std::string& folder, const LaunchOptions& options) {
  if (!options.command.empty()) return number_from<pid_t>(options.command.front()).value_or(0);
  const std::vector<pid_t> jobs = jobs_in(folder);
  if (jobs.size() == 1) return jobs.front();
  if (jobs.empty())
    fmt::print(stderr, "ruedarun: no job of this user runs on this machine (or each with --no-page)\n");
  else
    fmt::print(stderr, "ruedarun: several jobs run; name one of them: ruedarun --dump {}\n",
               fmt::join(jobs, " or "));
  return 0;
}

}  // namespace

int ask_for_dump(const LaunchOptions& options) {
  const std::optional<std::string> folder = jobs_folder();
  const pid_t process = folder ? process_of_job(*folder, options) : 0;
  if (process == 0) return 1;
  const std::optional<json> dump = ask(socket_of_job(*folder, process));
  if (!dump) {
    fmt::print(
        stderr,
        "ruedarun: no job of this user with the process number {} answers (or it runs with --no-page)\n",
        process);
    return 1;
  }
  if (const std::string error = dump->value("error", ""); !error.empty()) {
    fmt::print(stderr, "ruedarun: {}\n", error);
    return 1;
  }
  fmt::print("{}\n{}: job.txt, and the files of {} ranks for torchfrtrace\n", dump->value("summary", ""),
             dump->value("folder", ""), dump->value("files", json::array()).size() - 1);
  return 0;
}

}  // namespace rueda
