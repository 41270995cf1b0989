// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/workload/bench_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <iostream>
#include <sstream>
#include <string_view>

#include "bench/rueda_bench/workload/alternation.h"
#include "core/base/error.h"
#include "core/base/operation_traits.h"

namespace rueda::bench {
namespace {

namespace options = boost::program_options;

constexpr std::int64_t kMostTensors = 100'000;
constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;  // of all tensors of a step

constexpr auto kUsage = R"(ruedarun -np N rueda-bench MODE [options]

start       the start and end of a job, against mpiexec; its own options: rueda-bench start --help
latency     a synchronous allreduce of 4 bytes through the whole stack
tensors     allreduces of --count tensors of --bytes each, submitted together; or of the
            gradients of a model, --from bert6|bert-base, in the order of backward
pack        the kernels that pack tensors of a device into a buffer and take them out again, of
            the same tensors as mode tensors, against a copy on the device; with --device cuda
allreduce, allgather, broadcast, alltoall, reducescatter, reduce, gather, scatter
            one tensor, for each of --sizes: of the tensor that is reduced or broadcast,
            of what each rank gives to alltoall and reducescatter, gets from allgather;
            of what rank 0 gets from gather, gives to scatter

Each rank stays on a core. It writes its tensors anew before each step (data that does not
move between caches makes the numbers lie), then all begin at one instant. Results are checked.
step          from a rank's first call to its last result, slowest rank: median and p99
negotiation   from the last rank's last submission, as its background thread took it, to
              the slowest rank's last Plan; clocks aligned; share: of the step
call to Plan  the same from the last rank's last call
bus           bandwidth: what each rank has to send and receive at least, over the median

options)";

// As they are typed. Signed numbers, so that -1 is told as such.
struct Words {
  std::int64_t count = 160;
  std::int64_t bytes = 4096;
  std::string from;
  std::string sizes = "4,1K,4K,64K,1M,4M,16M,64M";
  std::string dtype = "float32";
  std::string memory = "ordinary";
  std::string level = "stack";
  std::string device = "host";
  std::string against;
  double topk = 0.0;
  int ranks = 2;
  int alternations = 5;
};

void refuse(const std::string& why) { throw options::error(why); }

void check(const Experiment& experiment) {
  if (experiment.steps < 1 || experiment.steps > 1'000'000 || experiment.warmup < 0 ||
      experiment.warmup > 1'000'000) {
    refuse(fmt::format("--steps {} --warmup {}: at least 1 step and 0 for warming up, at most a million",
                       experiment.steps, experiment.warmup));
  }
}

std::size_t size_from(const std::string& text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, text.data() + text.size());
  const int shift = unit == "" ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (error != std::errc() || shift < 0 || value < 1 || value > static_cast<std::size_t>(kMostBytes) >> shift)
    refuse(fmt::format("--sizes: '{}'; it must be bytes from 1 to 4G, such as 4, 64K or 1M", text));
  return value << shift;
}

DataType dtype_from(const std::string& text) {
  for (int i = 0; i < kDataTypeCount; ++i) {
    if (to_string(static_cast<DataType>(i)) == text) return static_cast<DataType>(i);
  }
  refuse(fmt::format("there is no --dtype {}", text));
  return DataType::float32;
}

bool known_to_mpi(DataType dtype) { return dtype != DataType::boolean && accumulator_of(dtype) == dtype; }

// The items of a list with commas. A comma at the end adds an empty item.
std::vector<std::string> items(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream list(text + ',');
  for (std::string one; std::getline(list, one, ',');) result.push_back(one);
  return result;
}

std::vector<MemoryKind> memories_from(const std::string& text) {
  std::vector<MemoryKind> result;
  for (const std::string& one : items(text)) {
    if (one != "ordinary" && one != "window")
      refuse(fmt::format("--memory {}: it is ordinary, window, or both with a comma", text));
    const MemoryKind kind = one == "window" ? MemoryKind::window : MemoryKind::ordinary;
    if (std::ranges::find(result, kind) != result.end())
      refuse(fmt::format("--memory {}: {} stands there twice", text, one));
    result.push_back(kind);
  }
  return result;
}

std::optional<Operation> operation_from(const std::string& mode) {
  for (Operation each :
       {Operation::allreduce, Operation::allgather, Operation::broadcast, Operation::alltoall,
        Operation::reducescatter, Operation::reduce, Operation::gather, Operation::scatter}) {
    if (to_string(each) == mode) return each;
  }
  return std::nullopt;
}

std::vector<Collective> collectives(Operation operation, const Words& given) {
  const DataType dtype = dtype_from(given.dtype);
  std::vector<Collective> result;
  for (const std::string& size : items(given.sizes)) {
    result.push_back({operation, dtype, size_from(size), given.topk});
    if (result.back().bytes % size_of(dtype) != 0)
      refuse(fmt::format("--sizes: {} bytes are no whole number of {}", size, given.dtype));
  }
  return result;
}

Workload workload(const std::string& mode, const Words& given) {
  if (mode == "latency") return equal_tensors(1, sizeof(float));
  if (mode != "tensors" && mode != "pack")
    refuse(mode.empty() ? "no mode is given" : fmt::format("there is no mode '{}'", mode));
  const std::vector<std::string> known = models();
  if (std::ranges::find(known, given.from) != known.end()) return gradients_of(given.from);
  if (!given.from.empty())
    refuse(fmt::format("--from {}: it is one of {}", given.from, fmt::join(known, ", ")));
  if (given.count < 1 || given.count > kMostTensors)
    refuse(fmt::format("--count {}: it must be from 1 to {}", given.count, kMostTensors));
  if (given.bytes < 4 || given.bytes % 4 != 0 || given.bytes > kMostBytes / given.count) {
    refuse(
        fmt::format("{} tensors of {} bytes: bytes must be a positive multiple of 4 (float32), and all "
                    "together at most {}",
                    given.count, given.bytes, kMostBytes));
  }
  return equal_tensors(given.count, given.bytes);
}

// A model's gradients are many bytes: without a wish for more, as many steps as of one large tensor.
void few_steps(Experiment& experiment, const options::variables_map& given) {
  const int enough = enough_steps(static_cast<std::size_t>(experiment.workload->bytes()));
  if (given["steps"].defaulted()) experiment.steps = std::min(experiment.steps, enough);
  if (given["warmup"].defaulted()) experiment.warmup = std::min(experiment.warmup, enough);
}

// Options that the mode would leave unread.
void check_meaning(const std::string& mode, const options::variables_map& given) {
  auto was_given = [&given](const char* name) { return given.contains(name) && !given[name].defaulted(); };
  for (const char* name : {"count", "bytes", "from"}) {
    if (mode != "tensors" && mode != "pack" && was_given(name))
      refuse(fmt::format("--{} is for tensors", name));
  }
  if (was_given("from") && (was_given("count") || was_given("bytes")))
    refuse("--from gives the tensors: --count and --bytes cannot come with it");
  for (const char* name : {"sizes", "dtype", "level", "plot"}) {
    if (!operation_from(mode) && was_given(name))
      refuse(fmt::format("--{} is for allreduce and its like, not for {}", name, mode));
  }
}

void check_operation(const Experiment& experiment) {
  const std::optional<Operation> operation = operation_from(experiment.mode);
  if (!operation || (experiment.level == Level::stack && !experiment.on_device)) return;
  const Operation carried_out = traits(*operation).carried_out_as;
  if (carried_out == *operation) return;
  refuse(
      fmt::format("{} goes through the whole stack of the host: below that it is {}, which can be measured",
                  experiment.mode, to_string(carried_out)));
}

void check_alternation(const Experiment& experiment, const Words& words,
                       const options::variables_map& given) {
  const std::vector<std::string> known = libraries();
  if (!experiment.alternation) {
    for (const char* name : {"ranks", "alternations"}) {
      if (!given[name].defaulted())
        refuse(fmt::format("--{} is for --against {}", name, fmt::join(known, ", ")));
    }
    return;
  }
  if (std::ranges::find(known, words.against) == known.end())
    refuse(fmt::format("--against {}: it is mpi, {}", words.against, fmt::join(known, ", ")));
  if (experiment.mode != "allreduce" && experiment.mode != "tensors")
    refuse(
        fmt::format("--against {} is for allreduce and tensors, not for {}", words.against, experiment.mode));
  if (words.dtype != "float32" || experiment.memories.size() != 1 || !experiment.plot.empty())
    refuse(fmt::format("--against {}: float32, one --memory, and no --plot", words.against));
  if (words.ranks < 1 || words.ranks > 4096 || words.alternations < 1 || words.alternations > 1000) {
    refuse(fmt::format("--ranks {} --alternations {}: 1 to 4096, and 1 to 1000", words.ranks,
                       words.alternations));
  }
}

bool on_devices(const std::string& reference) { return reference == "nccl" || reference == "nothing"; }

void check_device(const Experiment& experiment, const Words& words, const options::variables_map& given) {
  if (words.device != "host" && words.device != "cuda")
    refuse(fmt::format("--device {}: it is host or cuda", words.device));
  if (experiment.mode == "pack" && (!experiment.on_device || !words.against.empty()))
    refuse("pack is for --device cuda, without --against: it is measured against a copy on the device");
  if (!experiment.on_device) return;
  if (experiment.workload && experiment.mode != "pack")
    refuse(
        fmt::format("--device cuda is for allreduce and its like and for pack, not for {}", experiment.mode));
  if (!words.against.empty() && !on_devices(words.against))
    refuse(fmt::format("--against {}: with --device cuda it is nccl or nothing", words.against));
  if (experiment.level == Level::backend || experiment.limit || experiment.measure ||
      given.contains("topk") || words.memory != "ordinary") {
    refuse(
        "--device cuda goes through the whole stack, in ordinary memory, and has no --limit, --measure or "
        "--topk");
  }
}

options::options_description description_of(Experiment& experiment, Words& words) {
  options::options_description shown(kUsage);
  auto value = [](auto& target) { return options::value(&target)->default_value(target); };
  auto add = shown.add_options();
  add("help,h", "this text");
  add("count", value(words.count), "tensors of a step");
  add("bytes", value(words.bytes), "of a tensor");
  add("from", options::value(&words.from), "the gradients of this model instead");
  add("sizes", value(words.sizes), "for each of these");
  add("dtype", value(words.dtype), "of the tensor");
  add("memory", value(words.memory),
      "where the tensors lie: ordinary, or window, in which the ranks of a host work in place; collectives: "
      "or both, with a comma");
  add("level", value(words.level),
      "stack: submit, negotiate, run, wait; backend: the operation alone, in shared memory (between hosts by "
      "tcp), stepped by the "
      "program's own thread");
  add("device", value(words.device),
      "cuda: tensors on a device of each rank, timed by it, from the submission to the result there: "
      "collectives, and pack");
  add("steps", value(experiment.steps), "steps that are measured (of large sizes: fewer)");
  add("warmup", value(experiment.warmup), "steps before them");
  add("against", options::value(&words.against),
      "mpi: in alternation the same by MPI, in the same processes; with --device cuda nccl: the same by NCCL "
      "alone, or nothing: no operation at all; gloo, mpich, intel-mpi, oneccl, open-mpi "
      "or best: allreduce and tensors, in alternating runs, without ruedarun (bench/README.md)");
  add("limit", options::bool_switch(&experiment.limit),
      "allreduce of float32, 2 or 4 ranks: beside it the time of the loops alone, and which "
      "share of our time that is");
  add("measure", options::bool_switch(&experiment.measure),
      "allreduce of floating point: beside it, in alternation, the same with the squares of the result "
      "summed "
      "up on the way, and how many times our time that is");
  add("topk", options::value(&words.topk),
      "allreduce of float32 through the whole stack: this share of the elements travels between hosts; "
      "results are not checked");
  add("ranks", value(words.ranks), "so many, in alternating runs");
  add("alternations", value(words.alternations), "so many of those");
  add("json", options::value(&experiment.json), "write the numbers there");
  add("plot", options::value(&experiment.plot), "draw the bus bandwidths there, as SVG");
  return shown;
}

options::variables_map parsed(int argc, char** argv, const options::options_description& shown,
                              std::string& mode) {
  options::options_description all;
  std::vector<std::string> more;
  all.add(shown).add_options()("mode", options::value(&mode))("more", options::value(&more));
  options::positional_options_description words;
  words.add("mode", 1).add("more", -1);
  options::variables_map given;
  // No abbreviations: alternate.py, which reads the same words, knows none.
  using options::command_line_style::allow_guessing;
  const int style = options::command_line_style::unix_style & ~allow_guessing;
  options::store(options::command_line_parser(argc, argv).options(all).positional(words).style(style).run(),
                 given);
  options::notify(given);
  if (!more.empty()) refuse(fmt::format("'{}' after {}: one mode at a time", more.front(), mode));
  return given;
}

}  // namespace

int enough_steps(std::size_t bytes) {
  constexpr std::size_t kBytesInAll = std::size_t{256} << 20;
  return static_cast<int>(std::max<std::size_t>(20, kBytesInAll / bytes));
}

std::optional<Experiment> read_options(int argc, char** argv) {
  Experiment experiment;
  experiment.command = fmt::format("{}", fmt::join(argv + 1, argv + argc, " "));
  Words words;
  const options::options_description shown = description_of(experiment, words);
  const options::variables_map given = parsed(argc, argv, shown, experiment.mode);
  if (given.contains("help")) {
    std::cout << shown;
    return std::nullopt;
  }
  if (words.level != "stack" && words.level != "backend")
    refuse(fmt::format("--level {}: it is stack or backend", words.level));
  check_meaning(experiment.mode, given);
  experiment.memories = memories_from(words.memory);
  experiment.on_device = words.device == "cuda";
  const bool in_processes = words.against == "mpi" || (experiment.on_device && on_devices(words.against));
  if (in_processes) experiment.beside = words.against;
  experiment.alternation = !words.against.empty() && !in_processes;
  experiment.level = words.level == "backend" ? Level::backend : Level::stack;
  if (const auto operation = operation_from(experiment.mode)) {
    experiment.collectives = collectives(*operation, words);
    if (words.against == "mpi" && !experiment.on_device &&
        !known_to_mpi(experiment.collectives.front().dtype))
      refuse(fmt::format("--against mpi: MPI has no {} that it could sum up", words.dtype));
  } else {
    if (experiment.memories.size() != 1)
      refuse(fmt::format("--memory {}: one of them with {}", words.memory, experiment.mode));
    experiment.workload = workload(experiment.mode, words);
    experiment.model = words.from;
    if (!words.from.empty()) few_steps(experiment, given);
  }
  if (experiment.limit && (experiment.mode != "allreduce" || words.dtype != "float32"))
    refuse("--limit is for allreduce of float32");
  if (experiment.measure && (experiment.mode != "allreduce" || experiment.alternation ||
                             !is_floating_point(experiment.collectives.front().dtype)))
    refuse("--measure is for allreduce of floating point, without another library but mpi");
  if (given.contains("topk") &&
      (!is_share(words.topk) || experiment.mode != "allreduce" || words.dtype != "float32" ||
       experiment.level == Level::backend || experiment.alternation)) {
    refuse(
        fmt::format("--topk {}: a share, more than 0 and at most 1, for allreduce of float32 through the "
                    "stack, without another library but mpi",
                    words.topk));
  }
  check(experiment);
  check_operation(experiment);
  check_alternation(experiment, words, given);
  check_device(experiment, words, given);
  return experiment;
}

}  // namespace rueda::bench
