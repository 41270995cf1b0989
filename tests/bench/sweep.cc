// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/sweep.h"

#include <algorithm>
#include <optional>

namespace rueda::bench {
namespace {

// What is cut into equal parts gets as many bytes more as that takes.
Collective divisible(Collective what, Rank ranks) {
  const std::size_t unit = size_of(what.dtype) * static_cast<std::size_t>(ranks);
  const bool cut = what.operation != Operation::allreduce && what.operation != Operation::broadcast;
  if (cut) what.bytes = (what.bytes + unit - 1) / unit * unit;
  return what;
}

}  // namespace

SweepRow measure_row(const Experiment& experiment, Subject& subject, Reference* reference,
                     const Collective& wanted, MemoryKind memory) {
  const Collective what = divisible(wanted, subject.size());
  SweepRow row;
  row.what = what;
  row.memory = memory;
  CollectiveBuffers buffers(what, subject.rank(), subject.size(),
                            [&](std::size_t bytes) { return subject.allocate(memory, bytes); });
  std::optional<CollectiveBuffers> theirs;
  if (reference != nullptr && reference->has(what)) {
    theirs.emplace(what, subject.rank(), subject.size(),
                   [&](std::size_t bytes) { return reference->allocate(bytes); });
  }
  std::unique_ptr<BareLoop> least;
  if (experiment.limit) least = subject.bare_loop(memory, static_cast<std::size_t>(what.elements()));
  const int steps = std::min(experiment.steps, enough_steps(what.bytes));
  std::size_t wrong = 0;
  row.warmup = std::min(experiment.warmup, steps);
  for (int step = -row.warmup; step < steps; ++step) {
    buffers.fill();
    const void* result = nullptr;
    const double seconds = subject.run(buffers, result, false);
    wrong += buffers.wrong(result);
    if (step >= 0) row.ours.push_back(seconds * 1e6);
    if (experiment.measure) {
      buffers.fill();
      const double measured = subject.run(buffers, result, true);
      wrong += buffers.wrong(result);
      if (step >= 0) row.measured.push_back(measured * 1e6);
    }
    if (least) {
      subject.rest();
      const double seconds = least->seconds();
      if (step >= 0) row.limit.push_back(seconds * 1e6);
    }
    if (!theirs) continue;
    subject.rest();
    theirs->fill();
    const double their_seconds = reference->seconds(*theirs);
    if (step >= 0) row.reference.push_back(their_seconds * 1e6);
  }
  // Also what lets nobody take `least` away while another looks at it.
  std::vector<double> sums{static_cast<double>(wrong)};
  for (std::vector<double>* series : {&row.ours, &row.reference, &row.limit, &row.measured, &sums}) {
    if (!series->empty()) subject.take_largest(*series);
  }
  row.wrong = sums.front();
  return row;
}

}  // namespace rueda::bench
