// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

namespace rueda::bench {
namespace {

// Rounds the bytes of an operation up if its tensor is cut into equal parts.
Collective divisible(Collective what, Rank ranks) {
  const std::size_t unit = size_of(what.dtype) * static_cast<std::size_t>(ranks);
  const bool cut = what.operation != Operation::allreduce && what.operation != Operation::broadcast &&
                   what.operation != Operation::reduce;
  if (cut) what.bytes = (what.bytes + unit - 1) / unit * unit;
  return what;
}

// The buffers of both sides and of the limit.
struct Memory {
  std::optional<CollectiveBuffers> ours, theirs;
  std::unique_ptr<BareLoop> least;
};

// Throws on all ranks what is missing on one.
Memory memory_for(const Experiment& experiment, Subject& subject, Reference* reference,
                  const Collective& what, MemoryKind kind) {
  Memory memory;
  std::string problem;
  try {
    memory.ours.emplace(what, subject.rank(), subject.size(),
                        [&](std::size_t bytes) { return subject.allocate(kind, bytes); });
    if (reference != nullptr && reference->has(what)) {
      memory.theirs.emplace(what, subject.rank(), subject.size(),
                            [&](std::size_t bytes) { return reference->allocate(bytes); });
    }
  } catch (const std::bad_alloc&) {
    problem = fmt::format(
        "rank {} has no memory for tensors of {} bytes; give smaller --sizes, or allow more (ulimit -v)",
        subject.rank(), what.bytes);
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  for (const std::string& each : subject.gather(problem)) {
    if (!each.empty()) throw std::runtime_error(each);
  }
  if (experiment.limit) memory.least = subject.bare_loop(kind, static_cast<std::size_t>(what.elements()));
  return memory;
}

}  // namespace

SweepRow measure_row(const Experiment& experiment, Subject& subject, Reference* reference,
                     const Collective& wanted, MemoryKind memory) {
  const Collective what = divisible(wanted, subject.size());
  SweepRow row;
  row.what = what;
  row.memory = memory;
  auto [own_buffers, theirs, least] = memory_for(experiment, subject, reference, what, memory);
  CollectiveBuffers& buffers = *own_buffers;
  const int steps = std::min(experiment.steps, enough_steps(what.bytes));
  std::size_t wrong = 0;
  row.warmup = std::min(experiment.warmup, steps);
  const void* result = buffers.output().data;
  auto ours = [&](bool measure) {
    buffers.fill();
    const double seconds = subject.run(buffers, result, measure);
    wrong += buffers.wrong(result);
    return seconds * 1e6;
  };
  auto limit = [&] {
    subject.rest();
    const double seconds = least->seconds([&](std::byte* tensor) { buffers.fill(tensor); });
    static_cast<void>(buffers.wrong(result));  // so that as much goes through the caches as with ours
    return seconds * 1e6;
  };
  for (int step = -row.warmup; step < steps; ++step) {
    // In turns who finds in the caches what MPI has left there.
    const bool limit_first = least && step % 2 != 0;
    const double before = limit_first ? limit() : 0;
    const double own = ours(false);
    const double measured = experiment.measure ? ours(true) : 0;
    const double bound = least && !limit_first ? limit() : before;
    double theirs_took = 0;
    if (theirs) {
      subject.rest();
      theirs->fill();
      theirs_took = reference->seconds(*theirs) * 1e6;
    }
    if (step < 0) continue;
    row.ours.push_back(own);
    if (experiment.measure) row.measured.push_back(measured);
    if (least) row.limit.push_back(bound);
    if (theirs) row.reference.push_back(theirs_took);
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
