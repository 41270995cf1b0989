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

// Nothing of the file is read, and only a file in memory is looked at: others may wait.
std::string link_of(std::string_view process, int number) {
  std::array<char, 128> path{};
  const ssize_t length =
      ::readlink(fmt::format("/proc/{}/fd/{}", process, number).c_str(), path.data(), path.size());
  return std::string(path.data(), static_cast<std::size_t>(std::max<ssize_t>(0, length)));
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
  int threads = 0;
  for (std::string line; std::getline(lines, line) && frames.size() < kMostFrames;) {
    if (line.find("(most recent call first)") != std::string::npos && line.front() != ' ' && ++threads > 1)
      break;
    std::string frame = frame_of(line);
    if (frame.empty() && line.starts_with("  ...")) frame = "… and more";
    if (frame.empty() || frame.size() > kLongestFrame) continue;
    frames.push_back(std::move(frame));
  }
  return frames;
}

PythonStacks::PythonStacks(pid_t process, int signal, Descriptor file, int number, Descriptor handle,
                           std::string program)
    : process_(process),
      signal_(signal),
      file_(std::move(file)),
      number_(number),
      handle_(std::move(handle)),
      program_(std::move(program)) {}

std::shared_ptr<PythonStacks> PythonStacks::of(pid_t process, int signal, Descriptor file, int number) {
  if (process <= 0 || signal < SIGRTMIN || signal > SIGRTMAX || number < 0 || !is_in_memory(file))
    return nullptr;
  Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  std::string program = program_of(process);
  if (!handle || program.empty()) return nullptr;
  return std::shared_ptr<PythonStacks>(
      new PythonStacks(process, signal, std::move(file), number, std::move(handle), std::move(program)));
}

bool PythonStacks::is_alive() const {
  return ::syscall(SYS_pidfd_send_signal, handle_.number(), 0, nullptr, 0) == 0 &&
         program_of(process_) == program_;
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

// The program may have closed it, and have another file under its number.
bool PythonStacks::has_file() const {
  const std::string link = link_of(std::to_string(process_), number_);
  if (link.empty() || link != link_of("self", file_.number())) return false;
  struct stat own {
  }, other{};
  return ::fstat(file_.number(), &own) == 0 &&
         ::stat(fmt::format("/proc/{}/fd/{}", process_, number_).c_str(), &other) == 0 &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

// The signal is blocked while its handler runs. Between the end of waiting and the begin of the handler it is
// neither: then nothing has been written yet.
PythonStacks::Handler PythonStacks::handler_of(pid_t thread) const {
  const std::optional<SignalSets> signals = signals_of_thread(process_, thread);
  if (!signals) return Handler::ended;
  if (((signals->pending | signals->blocked) & bit()) != 0) return Handler::runs;
  return has_text() ? Handler::wrote : Handler::wrote_nothing;
}

std::string PythonStacks::own_handler() const {
  return fmt::format("the program has a handler of its own for signal {}, and gets no more of them", signal_);
}

// Empty: the thread may get the signal.
std::string PythonStacks::problem_before(pid_t thread) {
  const std::optional<ThreadFacts> facts = facts_of_thread(process_, thread);
  const std::optional<SignalSets> signals = signals_of_thread(process_, thread);
  if (!facts || !signals || !is_alive()) return fmt::format("thread {} has ended", thread);
  if (facts->state == 'T' || facts->state == 't') return "it is stopped, so Python does not run";
  if (asked_) {
    const Handler handler = handler_of(*asked_);
    if (handler == Handler::runs)
      return fmt::format("thread {} has not taken an earlier signal yet", *asked_);
    is_mute_ = is_mute_ || handler == Handler::wrote_nothing;
    asked_.reset();
  }
  if (is_mute_) return own_handler();
  if ((signals->caught & bit()) == 0)
    return fmt::format("the program has taken the handler of signal {} away", signal_);
  if (((signals->blocked | signals->pending) & bit()) != 0)
    return fmt::format("thread {} blocks signal {}", thread, signal_);
  if (!has_file()) return "the program has closed its file for stacks";
  return "";
}

// Empty: its text is there.
std::string PythonStacks::problem_after(pid_t thread, std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  Handler handler = handler_of(thread);
  while (handler != Handler::wrote && handler != Handler::ended && Clock::now() < until) {
    std::this_thread::sleep_for(kPause);
    handler = handler_of(thread);
  }
  if (handler == Handler::runs) {
    const ThreadFacts facts = facts_of_thread(process_, thread).value_or(ThreadFacts{});
    return fmt::format("thread {} does not take signals; the kernel says: state {}, in {}", thread,
                       facts.state, facts.waits.empty() ? "no wait" : facts.waits);
  }
  asked_.reset();
  if (handler == Handler::wrote) return "";
  if (handler == Handler::ended) return fmt::format("thread {} has ended", thread);
  is_mute_ = true;
  return own_handler();
}

// The process writes where the file's shared position is.
std::string PythonStacks::prepare(pid_t thread) {
  if (std::string problem = problem_before(thread); !problem.empty()) return problem;
  if (::ftruncate(file_.number(), 0) != 0 || ::lseek(file_.number(), 0, SEEK_SET) != 0)
    return "its file for stacks cannot be used";
  return "";
}

bool PythonStacks::send(pid_t thread) {
  if (::syscall(SYS_tgkill, process_, thread, signal_) != 0) return false;
  asked_ = thread;
  return true;
}

PythonStacks::Answer PythonStacks::take(pid_t thread, std::chrono::milliseconds limit) {
  if (std::string problem = problem_after(thread, limit); !problem.empty())
    return {.frames = {}, .problem = std::move(problem)};
  return {.frames = frames_of_faulthandler(text()), .problem = ""};
}

PythonStacks::Answer PythonStacks::ask(pid_t thread, std::chrono::milliseconds limit) {
  if (std::string problem = prepare(thread); !problem.empty())
    return {.frames = {}, .problem = std::move(problem)};
  if (!send(thread)) return {.frames = {}, .problem = fmt::format("thread {} has ended", thread)};
  return take(thread, limit);
}

}  // namespace rueda
