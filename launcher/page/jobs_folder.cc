// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/jobs_folder.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/base/number.h"
#include "launcher/page/page_socket.h"

namespace rueda {
namespace {

constexpr mode_t kMine = S_IRWXU;
constexpr std::string_view kEnding = ".sock";
constexpr std::string_view kVariable = "XDG_RUNTIME_DIR";
constexpr std::size_t kLongestEnvironment = 1 << 22;

bool is_mine_alone(const std::string& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() &&
         (about.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

std::string folder_in(const std::string& runtime) {
  return is_mine_alone(runtime) ? runtime + "/rueda" : fmt::format("/tmp/rueda-{}", ::geteuid());
}

}  // namespace

std::optional<std::string> jobs_folder() {
  const char* runtime = std::getenv(kVariable.data());
  const std::string path = folder_in(runtime == nullptr ? "" : runtime);
  ::mkdir(path.c_str(), kMine);
  return is_mine_alone(path) ? std::optional(path) : std::nullopt;
}

std::optional<std::string> jobs_folder_of(pid_t process) {
  std::ifstream environment(fmt::format("/proc/{}/environ", process));
  if (!environment) return std::nullopt;
  std::string runtime;
  std::size_t read = 0;
  for (std::string line; read < kLongestEnvironment && std::getline(environment, line, '\0');) {
    read += line.size() + 1;
    if (line.starts_with(kVariable) && line.substr(kVariable.size(), 1) == "=")
      runtime = line.substr(kVariable.size() + 1);
  }
  const std::string path = folder_in(runtime);
  return is_mine_alone(path) ? std::optional(path) : std::nullopt;
}

std::string socket_of_job(const std::string& folder, pid_t ruedarun) {
  return fmt::format("{}/{}{}", folder, ruedarun, kEnding);
}

std::vector<pid_t> jobs_in(const std::string& folder) {
  std::vector<pid_t> jobs;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(kEnding)) continue;
    const auto process = number_from<pid_t>(std::string_view(name).substr(0, name.size() - kEnding.size()));
    if (!process || *process <= 0) continue;
    if (::kill(*process, 0) != 0 && errno == ESRCH && !is_listening_on(entry.path()))
      std::filesystem::remove(entry.path(), none);
    else
      jobs.push_back(*process);
  }
  std::ranges::sort(jobs);
  return jobs;
}

}  // namespace rueda
