// SPDX-License-Identifier: Apache-2.0
// The experiment that the command line of rueda-bench asks for.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/rueda_bench/workload/collective.h"
#include "bench/rueda_bench/workload/workload.h"

namespace rueda::bench {

enum class Level { stack, backend };

// A plain value.
struct Experiment {
  std::string command;  // the words of the command line
  std::string mode;
  std::string model;                    // whose gradients; empty: tensors of one size
  std::optional<Workload> workload;     // latency, tensors, pack
  std::vector<Collective> collectives;  // the other modes
  std::vector<MemoryKind> memories;     // of tensors; one if there is a workload
  Level level = Level::stack;
  bool on_device = false;  // tensors lie on a CUDA device
  int steps = 1000;
  int warmup = 100;          // steps that are not measured
  std::string beside;        // in the same processes: mpi, nccl, nothing; empty: nobody
  bool limit = false;        // the zero-copy limit beside it
  bool measure = false;      // the same with Reduction::measure beside it
  bool alternation = false;  // against a library whose ranks are processes of their own
  std::string json;
  std::string plot;
};

// Of operations on so many bytes: large ones are few, as many bytes in all as small ones, 20 at least.
int enough_steps(std::size_t bytes);

// Nothing when the command line has been answered already. Throws boost::program_options::error.
std::optional<Experiment> read_options(int argc, char** argv);

}  // namespace rueda::bench
