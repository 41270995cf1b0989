// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/processes.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <system_error>
#include <thread>

#include "launcher/system/descriptor.h"
#include "launcher/system/signals.h"

namespace rueda {
namespace {

// Parent of a living process; 0 when it has ended.
pid_t parent_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  char state = 0;
  pid_t parent = 0;
  fields >> state >> parent;
  return state == 'Z' || state == 'X' ? 0 : parent;
}

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  while (folder != nullptr) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    pid_t process = std::atoi(entry->d_name);
    if (process > 0) children.emplace(parent_of(process), process);
  }
  return children;
}

// Most kernels list the children of each thread. Without that all processes have to be looked at.
bool kernel_lists_children() {
  const std::string path = "/proc/self/task/" + std::to_string(::getpid()) + "/children";
  static const bool lists = ::access(path.c_str(), R_OK) == 0;
  return lists;
}

std::vector<pid_t> listed_children(pid_t process) {
  std::vector<pid_t> children;
  const std::string threads = "/proc/" + std::to_string(process) + "/task";
  std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(threads.c_str()), ::closedir);
  while (folder != nullptr) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    if (std::atoi(entry->d_name) <= 0) continue;
    std::ifstream file(threads + "/" + entry->d_name + "/children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

}  // namespace

std::vector<pid_t> descendants() {
  std::vector<pid_t> found{::getpid()};
  if (!kernel_lists_children()) {
    const std::multimap<pid_t, pid_t> children = children_by_parent();
    for (std::size_t next = 0; next < found.size(); ++next) {
      auto [first, last] = children.equal_range(found[next]);
      for (auto child = first; child != last; ++child) found.push_back(child->second);
    }
  } else {
    for (std::size_t next = 0; next < found.size(); ++next)
      for (const pid_t child : listed_children(found[next]))
        if (parent_of(child) != 0) found.push_back(child);
  }
  found.erase(found.begin());
  return found;
}

void execute(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
}

pid_t fork_program(int input, int output, int errors) {
  const std::uint64_t open_files = allow_many_descriptors();
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) throw std::system_error(errno, std::generic_category(), "cannot fork");
  if (process > 0) return process;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  limit_descriptors(open_files);
  set_signal_state({});
  return 0;
}

std::string output_of(const std::vector<std::string>& command) {
  Pipe pipe = make_pipe();
  pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe.write_end.number(), STDOUT_FILENO);
    ::dup2(pipe.write_end.number(), STDERR_FILENO);
    set_signal_state({});  // Ctrl-C ends it
    execute(command);
    ::_exit(127);
  }
  pipe.write_end.close();
  std::string output;
  for (std::string_view piece; !(piece = read_some(pipe.read_end.number())).empty();) output += piece;
  ::waitpid(child, nullptr, 0);
  return output;
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

void kill_descendants(const std::set<pid_t>& spared) {
  using namespace std::chrono_literals;
  auto deadline = std::chrono::steady_clock::now() + 1s;
  while (std::chrono::steady_clock::now() < deadline) {
    std::vector<pid_t> left = descendants();
    std::erase_if(left, [&](pid_t process) { return spared.contains(process); });
    for (pid_t process : left) ::kill(process, SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {}
    if (left.empty()) return;
    std::this_thread::sleep_for(5ms);
  }
}

bool is_program(const std::string& name) {
  const auto can_be_started = [](const std::string& path) {
    struct stat about {};
    return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return can_be_started(name);
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (can_be_started((folder.empty() ? "." : folder) + "/" + name)) return true;
  return false;
}

bool catches(pid_t process, int signal) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    if (word != "SigCgt:") continue;
    unsigned long long mask = 0;
    status >> std::hex >> mask;
    return (mask >> (signal - 1) & 1) != 0;
  }
  return false;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::string how_it_ended(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
}

std::optional<int> status_at_exit(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(file, line);
  std::istringstream words(line.substr(std::min(line.rfind(')') + 2, line.size())));
  std::string state, word, last;
  words >> state;
  while (words >> word) last = word;
  int status = 0;
  const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), status);
  if (error != std::errc() || state == "T" || state == "t") return std::nullopt;  // traced: not its own
  return status != 0 || state == "Z" ? std::optional(status) : std::nullopt;
}

}  // namespace rueda
