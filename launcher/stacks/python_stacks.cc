// SPDX-License-Identifier: Apache-2.0
#include "launcher/stacks/python_stacks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "launcher/stacks/thread_facts.h"

namespace rueda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostText = 256 << 10;
constexpr std::size_t kMostFrames = 256;
constexpr std::size_t kLongestFrame = 1024;
constexpr auto kPause = std::chrono::microseconds(500);

// Empty where it has ended. Nothing of the file is read.
std::string program_of(pid_t process) {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink(fmt::format("/proc/{}/exe", process).c_str(), path.data(), path.size());
  return std::string(path.data(), static_cast<std::size_t>(std::max<ssize_t>(0, length)));
}

// Reads of other files may wait.
bool is_in_memory(const Descriptor& file) {
  struct stat about {};
  struct statfs system {};
  return ::fstat(file.number(), &about) == 0 && S_ISREG(about.st_mode) &&
         ::fstatfs(file.number(), &system) == 0 && system.f_type == TMPFS_MAGIC &&
         ::fcntl(file.number(), F_GET_SEALS) >= 0;
}

// `  File "PATH", line NUMBER in FUNCTION`; nothing where it is something else.
std::string frame_of(std::string_view line) {
  constexpr std::string_view kFile = "  File \"", kLine = "\", line ", kIn = " in ";
  const std::size_t path_end = line.rfind(kLine);
  if (!line.starts_with(kFile) || path_end == std::string_view::npos || path_end < kFile.size()) return "";
  const std::string_view path = line.substr(kFile.size(), path_end - kFile.size());
  const std::string_view rest = line.substr(path_end + kLine.size());
  const std::size_t number_end = rest.find(kIn);
  if (number_end == std::string_view::npos) return "";
  return fmt::format("{} ({}:{})", rest.substr(number_end + kIn.size()), path, rest.substr(0, number_end));
}

}  // namespace

std::vector<std::string> frames_of_faulthandler(const std::string& text) {
  std::vector<std::string> frames;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && frames.size() < kMostFrames;) {
    std::string frame = frame_of(line);
    if (frame.empty() && line.starts_with("  ...")) frame = "… and more";
    if (frame.empty() || frame.size() > kLongestFrame) continue;
    frames.push_back(std::move(frame));
  }
  return frames;
}

PythonStacks::PythonStacks(pid_t process, int signal, Descriptor file, Descriptor handle, std::string program)
    : process_(process),
      signal_(signal),
      file_(std::move(file)),
      handle_(std::move(handle)),
      program_(std::move(program)) {}

std::shared_ptr<PythonStacks> PythonStacks::of(pid_t process, int signal, Descriptor file) {
  if (process <= 0 || signal < SIGRTMIN || signal > SIGRTMAX || !is_in_memory(file)) return nullptr;
  Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  std::string program = program_of(process);
  if (!handle || program.empty()) return nullptr;
  return std::shared_ptr<PythonStacks>(
      new PythonStacks(process, signal, std::move(file), std::move(handle), std::move(program)));
}

bool PythonStacks::is_alive() const {
  return ::syscall(SYS_pidfd_send_signal, handle_.number(), 0, nullptr, 0) == 0 &&
         program_of(process_) == program_;
}

// The signal is blocked while its handler runs. Between the end of waiting and the begin of the handler it is
// neither: then nothing has been written yet.
bool PythonStacks::has_handled(pid_t thread, std::chrono::milliseconds limit) const {
  const std::uint64_t bit = std::uint64_t{1} << (signal_ - 1);
  const auto until = Clock::now() + limit;
  while (const std::optional<SignalSets> signals = signals_of_thread(process_, thread)) {
    if (((signals->pending | signals->blocked) & bit) == 0 && has_text()) return true;
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

bool PythonStacks::has_text() const {
  struct stat about {};
  return ::fstat(file_.number(), &about) == 0 && about.st_size > 0;
}

std::string PythonStacks::text() const {
  std::string text(kMostText, '\0');
  const ssize_t count = ::pread(file_.number(), text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

// The process writes where the file's shared position is.
PythonStacks::Answer PythonStacks::ask(pid_t thread, std::chrono::milliseconds limit) const {
  const std::optional<ThreadFacts> facts = facts_of_thread(process_, thread);
  const std::optional<SignalSets> signals = signals_of_thread(process_, thread);
  if (!facts || !signals || !is_alive()) return {.problem = fmt::format("thread {} has ended", thread)};
  if (facts->state == 'T' || facts->state == 't') return {.problem = "it is stopped, so Python does not run"};
  const std::uint64_t bit = std::uint64_t{1} << (signal_ - 1);
  if ((signals->caught & bit) == 0)
    return {.problem = fmt::format("the program has taken the handler of signal {} away", signal_)};
  if (((signals->blocked | signals->pending) & bit) != 0)
    return {.problem = fmt::format("thread {} blocks signal {}", thread, signal_)};
  if (::ftruncate(file_.number(), 0) != 0 || ::lseek(file_.number(), 0, SEEK_SET) != 0)
    return {.problem = "its file for stacks cannot be used"};
  if (::syscall(SYS_tgkill, process_, thread, signal_) != 0)
    return {.problem = fmt::format("thread {} has ended", thread)};
  if (!has_handled(thread, limit))
    return {.problem = fmt::format("thread {} does not take signals; the kernel says: state {}, in {}",
                                   thread, facts->state, facts->waits.empty() ? "no wait" : facts->waits)};
  return {.frames = frames_of_faulthandler(text()), .problem = ""};
}

}  // namespace rueda
