// SPDX-License-Identifier: Apache-2.0
// rueda-bench: how long operations take, and how much of that is agreement:
//   build/bin/ruedarun --no-prefix -np 2 build/bin/rueda-bench allreduce --against mpi
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <fstream>

#include "bench/rueda_bench/bench_report.h"
#include "bench/rueda_bench/devices/device_bench.h"
#include "bench/rueda_bench/pinning.h"
#include "bench/rueda_bench/placement.h"
#include "bench/rueda_bench/subjects/reference.h"
#include "bench/rueda_bench/workload/alternation.h"

namespace rueda::bench {
namespace {

// Before hours of measuring.
void check_writable(const char* option, const std::string& path) {
  if (!path.empty() && !std::ofstream(path, std::ios::app))
    throw std::runtime_error(fmt::format("{}: cannot write {}", option, path));
}

// The measured sides: the Subject and its Reference.
struct Sides {
  std::unique_ptr<DeviceBench> device;  // of --device cuda; the others then are its own
  std::unique_ptr<Subject> own_subject;
  std::unique_ptr<Reference> own_reference;

  Subject& subject() { return device ? device->subject() : *own_subject; }
  Reference* reference() { return device ? device->reference() : own_reference.get(); }
};

// Of ranks that measure something else one would wait for the other for ever.
void check_alike(Subject& subject, const std::string& command) {
  const std::vector<std::string> commands = subject.gather(command);
  for (std::size_t other = 1; other < commands.size(); ++other) {
    if (commands[other] != commands.front()) {
      throw std::runtime_error(
          fmt::format("rank 0 was started with '{}', rank {} with '{}': give all ranks the same options",
                      commands.front(), other, commands[other]));
    }
  }
}

// After the report: a benchmark of something that is wrong has failed.
void check_right(const std::vector<SweepRow>& rows) {
  for (const SweepRow& row : rows) {
    if (row.wrong > 0) {
      throw std::runtime_error(fmt::format(
          "{} of {} bytes in {} memory: {} elements of the results are wrong, of the rank with most",
          to_string(row.what.operation), row.what.bytes, to_string(row.memory), row.wrong));
    }
  }
}

Sides sides(const Experiment& experiment) {
  Sides result;
  if (experiment.on_device) {
    result.device = device_bench(experiment);
  } else {
    result.own_subject = experiment.level == Level::backend ? backend_subject() : stack_subject();
  }
  check_alike(result.subject(), experiment.command);
  if (experiment.beside == "mpi") result.own_reference = mpi_reference();
  return result;
}

void run_pack(const Experiment& experiment, Sides& sides, bool pinned) {
  const std::vector<PackRow> rows = sides.device->pack(experiment);
  const Placement where = placement(sides.subject(), pinned);
  if (sides.subject().rank() != 0) return;
  const nlohmann::json numbers = report(experiment, rows, where);
  if (!experiment.json.empty()) write_file("--json", experiment.json, numbers.dump(2) + '\n');
}

void run(const Experiment& experiment) {
  const bool pinned = pin_to_core();
  Sides both = sides(experiment);
  Subject& subject = both.subject();
  if (experiment.mode == "pack") return run_pack(experiment, both, pinned);
  std::optional<Measured> measured;
  if (experiment.workload) {
    auto allocate = [&](std::size_t bytes) { return subject.allocate(experiment.memories.front(), bytes); };
    measured = measure(experiment, allocate, both.reference());
  }
  std::vector<SweepRow> rows;
  for (const Collective& what : experiment.collectives)
    for (MemoryKind memory : experiment.memories)
      rows.push_back(measure_row(experiment, subject, both.reference(), what, memory));
  const Placement where = placement(subject, pinned);
  if (subject.rank() == 0) {
    const nlohmann::json numbers =
        measured ? report(experiment, *measured, where) : report(experiment, rows, where);
    if (!experiment.json.empty()) write_file("--json", experiment.json, numbers.dump(2) + '\n');
    if (!experiment.plot.empty())
      write_file("--plot", experiment.plot, to_svg(plot_of(experiment, rows, where)));
  }
  check_right(rows);
}

// The start of jobs is measured by a script.
[[noreturn]] void become_start(const std::vector<std::string>& words) {
  std::vector<std::string> more(words.begin() + 1, words.end());
  const std::string mpiexec = RUEDA_BENCH_MPIEXEC;  // of the MPI that Rueda is built with; empty: none
  if (!mpiexec.empty()) more.insert(more.begin(), "--mpiexec=" + mpiexec);
  become_script("start.py", more);
}

}  // namespace
}  // namespace rueda::bench

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (!words.empty() && words.front() == "start") rueda::bench::become_start(words);
    const auto experiment = rueda::bench::read_options(argc, argv);
    if (!experiment) return 0;
    rueda::bench::check_writable("--json", experiment->json);
    rueda::bench::check_writable("--plot", experiment->plot);
    if (experiment->alternation) rueda::bench::become_script("alternate.py", words);
    rueda::bench::run(*experiment);
    return 0;
  } catch (const boost::program_options::error& error) {
    fmt::print(stderr, "error: {}. See rueda-bench --help.\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
