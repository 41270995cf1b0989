// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bench_options.h"

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <iostream>

namespace rueda::bench {
namespace {

namespace options = boost::program_options;

constexpr std::size_t kMostTensors = 100'000;
constexpr std::size_t kMostBytes = std::size_t{4} << 30;  // of all tensors of a step

constexpr auto kUsage = R"(ruedarun -np N rueda-bench MODE [options]

latency     a synchronous allreduce of 4 bytes through the whole stack
tensors     allreduces of --count tensors of --bytes each, submitted together
allreduce   allreduces of one tensor, for each of --bytes

Every rank rewrites its tensors before each step, then all meet in a barrier.
step          from a rank's first call to its last result, slowest rank: median and p99
negotiation   from the last rank's last submission, as its coordinator took it, to
              the slowest rank's last Plan; clocks aligned; share: of the step
call to Plan  the same from the last rank's last call

options)";

std::vector<std::size_t> sizes_of_a_sweep() {
  return {4, 4096, 65536, std::size_t{1} << 20, std::size_t{16} << 20, std::size_t{64} << 20};
}

void refuse(const std::string& why) { throw options::error(why); }

void check(const Experiment& experiment) {
  if (experiment.steps < 1 || experiment.steps > 1'000'000 || experiment.warmup < 0 ||
      experiment.warmup > 1'000'000) {
    refuse(fmt::format("--steps {} --warmup {}: at least 1 step and 0 for warming up, at most a million",
                       experiment.steps, experiment.warmup));
  }
  for (const Workload& work : experiment.workloads) {
    if (work.count < 1 || work.count > kMostTensors)
      refuse(fmt::format("--count {}: it must be from 1 to {}", work.count, kMostTensors));
    if (work.bytes < 4 || work.bytes % 4 != 0 || work.bytes > kMostBytes / work.count) {
      refuse(
          fmt::format("{} tensors of {} bytes: bytes must be a positive multiple of 4 (float32), and all "
                      "together at most {}",
                      work.count, work.bytes, kMostBytes));
    }
  }
}

std::vector<Workload> workloads(const std::string& mode, const options::variables_map& given) {
  const bool sized = given.contains("bytes"), counted = given.contains("count");
  std::vector<std::size_t> sizes =
      sized ? given["bytes"].as<std::vector<std::size_t>>() : std::vector<std::size_t>{};
  const std::size_t count = counted ? given["count"].as<std::size_t>() : 160;
  if (mode == "latency") {
    if (sized || counted) refuse("latency is measured with 4 bytes; --count and --bytes are for tensors");
    return {{1, 4}};
  }
  if (mode == "tensors") {
    if (sizes.size() > 1) refuse("tensors are of one size; several --bytes are for allreduce");
    return {{count, sized ? sizes.front() : 4096}};
  }
  if (mode != "allreduce")
    refuse(mode.empty() ? "no mode is given" : fmt::format("there is no mode '{}'", mode));
  if (counted) refuse("allreduce reduces one tensor at a time; --count is for tensors");
  std::vector<Workload> result;
  for (std::size_t bytes : sized ? sizes : sizes_of_a_sweep()) result.push_back({1, bytes});
  return result;
}

}  // namespace

std::optional<Experiment> read_options(int argc, char** argv) {
  Experiment experiment;
  std::string reference;
  options::options_description shown(kUsage), all;
  auto value = [](auto& target) { return options::value(&target)->default_value(target); };
  shown.add_options()("help,h", "this text")("count", options::value<std::size_t>(),
                                             "tensors of a step (160)")(
      "bytes", options::value<std::vector<std::size_t>>()->multitoken(),
      "of a tensor (4096; allreduce: a sweep)")("steps", value(experiment.steps), "steps that are measured")(
      "warmup", value(experiment.warmup), "steps before them")(
      "reference", options::value(&reference),
      "'mpi': in alternation, one MPI_Allreduce of all the bytes of a step")(
      "json", options::value(&experiment.json), "write the numbers there");
  all.add(shown).add_options()("mode", options::value(&experiment.mode));
  options::positional_options_description first;
  first.add("mode", 1);
  options::variables_map given;
  options::store(options::command_line_parser(argc, argv).options(all).positional(first).run(), given);
  options::notify(given);
  if (given.contains("help")) {
    std::cout << shown;
    return std::nullopt;
  }
  if (!reference.empty() && reference != "mpi")
    refuse(fmt::format("--reference {}: the only one is mpi", reference));
  experiment.against_mpi = reference == "mpi";
  experiment.workloads = workloads(experiment.mode, given);
  check(experiment);
  return experiment;
}

}  // namespace rueda::bench
