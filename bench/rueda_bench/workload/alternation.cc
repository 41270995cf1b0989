// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/workload/alternation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "ops/link/launcher_environment.h"

namespace rueda::bench {
namespace {

namespace fs = std::filesystem;

// As RUEDA_PYTHON says; else the nearest .venv above this program or this folder; else that of the PATH.
std::string python(const fs::path& program) {
  if (const char* chosen = std::getenv("RUEDA_PYTHON")) return chosen;
  for (const fs::path& start : {program.parent_path(), fs::current_path()}) {
    for (fs::path folder = start; folder != folder.root_path(); folder = folder.parent_path()) {
      const fs::path found = folder / ".venv/bin/python";
      if (access(found.c_str(), X_OK) == 0) return found;
    }
  }
  return "python3";
}

}  // namespace

std::vector<std::string> libraries() { return {"gloo", "mpich", "intel-mpi", "oneccl", "open-mpi", "best"}; }

void become_script(const std::string& script, const std::vector<std::string>& arguments) {
  if (rank_from_launcher()) {
    throw std::runtime_error(
        "this starts the ranks of both sides, in alternation: call rueda-bench itself, without ruedarun; "
        "--ranks says how many");
  }
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const std::string interpreter = python(program);
  std::vector<std::string> words{interpreter, RUEDA_BENCH_PEERS "/" + script,
                                 "--rueda-bench=" + program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(interpreter.c_str(), pointers.data());
  throw std::runtime_error(
      fmt::format("{} needs Python, and '{}' cannot be run: {}; RUEDA_PYTHON names another", script,
                  interpreter, std::strerror(errno)));
}

}  // namespace rueda::bench
