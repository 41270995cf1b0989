// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/program_facts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "launcher/cli/build_info.h"
#include "launcher/system/descriptor.h"
#include "launcher/system/processes.h"
#include "ops/setup/device_report.h"

namespace rueda {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kLongestImport = std::chrono::seconds(60);  // torch from a file system that is far away
constexpr std::size_t kLongestText = 1000;
constexpr std::size_t kMostOutput = 64 << 10;

// A line each: "python 3.11.2", "torch 2.9.1", "rueda 0.1.0", "built 2.9.1", or "problem torch: WHY". A
// module of Rueda without torch, and torch without Rueda, are no problem.
constexpr const char* kProbe = R"(
import importlib, importlib.metadata, platform
print("python", platform.python_version(), flush=True)
def problem(name, text):
    print("problem", f"{name}: {text.splitlines()[-1] if text else 'no reason'}", flush=True)
def say(name, show):
    try:
        show(importlib.import_module(name))
        return True
    except ModuleNotFoundError as error:
        if error.name != name:
            problem(name, str(error))
    except BaseException as error:
        problem(name, str(error) or type(error).__name__)
    return False
def version(module):
    try:
        print("rueda", importlib.metadata.version("rueda"), flush=True)
    except importlib.metadata.PackageNotFoundError:
        print("rueda not installed", flush=True)
    say("rueda._build", lambda build: print("built", build.TORCH_VERSION, flush=True))
has_torch = say("torch", lambda module: print("torch", module.__version__, flush=True))
if say("rueda", version) and has_torch:
    say("rueda.torch", lambda module: None)
)";

std::string first_line_of_script(const std::string& path) {
  constexpr std::size_t kLongest = 256;
  std::array<char, kLongest> text{};
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), text.size());
  const std::string_view begin(text.data(), static_cast<std::size_t>(file.gcount()));
  return begin.starts_with("#!") ? std::string(begin.substr(2, begin.find('\n') - 2)) : "";
}

bool is_python(const std::string& program) {
  return fs::path(program).filename().string().starts_with("python");
}

// The path of a name in PATH; the name itself where it has a folder or is not there.
std::string path_of(const std::string& name) {
  const char* path = std::getenv("PATH");
  if (name.find('/') != std::string::npos || path == nullptr) return name;
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (std::string file = (folder.empty() ? "." : folder) + "/" + name; ::access(file.c_str(), X_OK) == 0)
      return file;
  return name;
}

// The script's name is the first word behind Python that is no option.
std::string problem_of_script(const std::vector<std::string>& program) {
  if (!is_python(program.front()) || program.size() < 2 || program[1].starts_with("-")) return "";
  std::error_code none;
  return fs::exists(program[1], none) ? "" : fmt::format("there is no file '{}'", program[1]);
}

void ask_python(const std::string& python, agents::SoftwareFacts& facts, int line_of_doctor) {
  const ProgramOutput output = output_within({python, "-c", kProbe}, kLongestImport, line_of_doctor);
  std::istringstream lines(output.text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string value = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "python") facts.python = value;
    if (name == "torch") facts.python_torch = value;
    if (name == "rueda") facts.python_rueda = value;
    if (name == "built") facts.python_built = value;
    if (name == "problem") facts.python_problem += (facts.python_problem.empty() ? "" : "; ") + value;
    if (!line.empty()) last = line;
  }
  for (std::string* text : {&facts.python, &facts.python_torch, &facts.python_rueda, &facts.python_built,
                            &facts.python_problem, &last})
    text->resize(std::min(text->size(), kLongestText));
  if (output.is_late) {
    facts.python_problem =
        fmt::format("'{}' has not imported torch and rueda within {} s", python, kLongestImport.count());
  } else if (output.status != 0 && facts.python_problem.empty()) {
    facts.python_problem = fmt::format("'{}' {}: {}", python, how_it_ended(output.status), last);
  }
}

// Of a child that has closed its streams. It is killed where it lives on, and its group in any case.
int status_of(pid_t process, Clock::time_point until) {
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(process, &status, WNOHANG)) == 0 && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(-process, SIGKILL);
  if (ended != 0) return status;
  ::kill(process, SIGKILL);  // it may not lead its group yet
  ::waitpid(process, &status, 0);
  return status;
}

}  // namespace

std::string python_of(const std::string& program) {
  if (is_python(program)) return program;
  std::istringstream line(first_line_of_script(path_of(program)));
  for (std::string word; line >> word;)
    if (is_python(word)) return word;
  return "";
}

ProgramOutput output_within(const std::vector<std::string>& command, std::chrono::seconds longest, int line) {
  const auto until = Clock::now() + longest;
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe pipe = make_pipe();
  const pid_t process = fork_program(nothing.number(), pipe.write_end.number(), pipe.write_end.number());
  if (process == 0) {
    execute(command);
    ::dprintf(STDERR_FILENO, "%s\n", std::strerror(errno));
    ::_exit(127);
  }
  pipe.write_end.close();
  ProgramOutput output;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    std::array<pollfd, 2> waits{{{pipe.read_end.number(), POLLIN, 0}, {line, POLLRDHUP, 0}}};
    output.is_late =
        left <= 0 || ::poll(waits.data(), waits.size(), static_cast<int>(left)) == 0 || waits[1].revents != 0;
    if (output.is_late) break;
    const std::string_view piece = read_some(pipe.read_end.number());
    if (piece.empty()) break;
    output.text += piece.substr(0, kMostOutput - output.text.size());
  }
  output.status = status_of(process, output.is_late ? Clock::now() : until);
  return output;
}

agents::SoftwareFacts software_facts(const std::vector<std::string>& program, int line) {
  agents::SoftwareFacts facts;
  facts.rueda = built_version();
  facts.torch = built_torch();
  facts.mpi = mpi_library_version();
  facts.devices = ops::device_report();
  if (program.empty()) return facts;
  if (!is_program(program.front()))
    facts.program_problem = fmt::format("there is no program '{}'", program.front());
  else
    facts.program_problem = problem_of_script(program);
  const std::string python = python_of(program.front());
  if (!python.empty() && is_program(python)) ask_python(python, facts, line);
  return facts;
}

}  // namespace rueda
