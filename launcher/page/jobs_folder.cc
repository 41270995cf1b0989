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
#include <string_view>

#include "core/base/number.h"

namespace rueda {
namespace {

constexpr mode_t kMine = S_IRWXU;
constexpr std::string_view kEnding = ".sock";

bool is_mine_alone(const std::string& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() &&
         (about.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

}  // namespace

std::optional<std::string> jobs_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool has_runtime = runtime != nullptr && is_mine_alone(runtime);
  const std::string path =
      has_runtime ? fmt::format("{}/rueda", runtime) : fmt::format("/tmp/rueda-{}", ::geteuid());
  ::mkdir(path.c_str(), kMine);
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
    if (::kill(*process, 0) != 0 && errno == ESRCH)
      std::filesystem::remove(entry.path(), none);
    else
      jobs.push_back(*process);
  }
  std::ranges::sort(jobs);
  return jobs;
}

}  // namespace rueda
