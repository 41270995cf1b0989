// SPDX-License-Identifier: Apache-2.0
#include "launcher/stacks/thread_facts.h"

#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string_view>

#include "core/base/number.h"
#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

std::string folder_of(pid_t process, pid_t thread) {
  return fmt::format("/proc/{}/task/{}", process, thread);
}

// Of a status file: the word behind "Name:". Empty where there is none.
std::string word_behind(const std::string& status, std::string_view name) {
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream words(line.substr(name.size()));
    std::string word;
    words >> word;
    return word;
  }
  return "";
}

std::uint64_t mask_behind(const std::string& status, std::string_view name) {
  return std::strtoull(word_behind(status, name).c_str(), nullptr, 16);
}

std::string without_line_end(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

std::vector<pid_t> threads_of(pid_t process) {
  std::vector<pid_t> threads;
  const std::string path = fmt::format("/proc/{}/task", process);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  while (folder != nullptr) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    if (const auto thread = number_from<pid_t>(std::string_view(entry->d_name))) threads.push_back(*thread);
  }
  std::ranges::sort(threads);
  if (const auto main = std::ranges::find(threads, process); main != threads.end())
    std::rotate(threads.begin(), main, main + 1);
  return threads;
}

std::optional<ThreadFacts> facts_of_thread(pid_t process, pid_t thread) {
  const std::string folder = folder_of(process, thread);
  const std::string stat = text_of_file(folder + "/stat");
  const std::size_t behind_name = stat.rfind(')');
  if (behind_name == std::string::npos || behind_name + 2 >= stat.size()) return std::nullopt;
  ThreadFacts facts{.id = thread, .name = without_line_end(text_of_file(folder + "/comm"))};
  facts.state = stat[behind_name + 2];
  facts.waits = without_line_end(text_of_file(folder + "/wchan"));
  if (facts.waits == "0") facts.waits.clear();
  return facts;
}

std::optional<SignalSets> signals_of_thread(pid_t process, pid_t thread) {
  const std::string status = text_of_file(folder_of(process, thread) + "/status");
  if (status.empty()) return std::nullopt;
  return SignalSets{.pending = mask_behind(status, "SigPnd:"),
                    .blocked = mask_behind(status, "SigBlk:"),
                    .caught = mask_behind(status, "SigCgt:")};
}

std::string why_not_traced(pid_t process) {
  const std::string tracer = word_behind(text_of_file(fmt::format("/proc/{}/status", process)), "TracerPid:");
  if (!tracer.empty() && tracer != "0")
    return fmt::format("process {} traces it, such as a debugger; end that one first", tracer);
  const std::string scope = without_line_end(text_of_file("/proc/sys/kernel/yama/ptrace_scope"));
  if (scope == "2" || scope == "3")
    return fmt::format("kernel.yama.ptrace_scope is {}; as root: sysctl kernel.yama.ptrace_scope=1{}", scope,
                       scope == "3" ? ", which needs a restart of the machine" : "");
  const std::string seccomp = word_behind(text_of_file("/proc/self/status"), "Seccomp:");
  if (!seccomp.empty() && seccomp != "0")
    return "the container does not allow ptrace; start it with the capability SYS_PTRACE";
  return "the kernel refuses to trace it; it may run as another user, or have more privileges";
}

}  // namespace rueda
