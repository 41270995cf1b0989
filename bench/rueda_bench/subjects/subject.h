// SPDX-License-Identifier: Apache-2.0
// The side that carries out a measured collective operation: the whole stack, or Works alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/rueda_bench/subjects/bare_loop.h"
#include "bench/rueda_bench/workload/collective.h"
#include "bench/rueda_bench/workload/start_line.h"

namespace rueda::bench {

// Purpose: one side of a comparison, on one rank; the main thread's. The same calls come on every rank.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual Rank rank() const = 0;
  virtual Rank size() const = 0;
  // Throws where there is none of that kind.
  virtual std::shared_ptr<std::byte> allocate(MemoryKind kind, std::size_t bytes) = 0;
  // Seconds of one operation that all begin together, and where its result is. Returns when all are through:
  // where ranks share a core, one could otherwise write its next data while another is to find out. Throws
  // what went wrong. `measure`: of an allreduce, with the squares of its result.
  virtual double run(CollectiveBuffers& buffers, const void*& result, bool measure) = 0;
  // The least that an allreduce of so many float32 takes these ranks.
  virtual std::unique_ptr<BareLoop> bare_loop(MemoryKind kind, std::size_t elements) = 0;
  // Returns when nothing of this disturbs MPI on the same processes.
  virtual void rest() = 0;
  // The words of all ranks, in order.
  virtual std::vector<std::string> gather(const std::string& word) = 0;
  // The largest of all ranks, one by one.
  virtual void take_largest(std::vector<double>& values) = 0;
};

// When all begin, by the default Runtime: in place of a barrier.
std::int64_t agreed_start(const StartLine& start);

// Submit, negotiate, run, wait.
std::unique_ptr<Subject> stack_subject();
// The same Works through shared memory, or by TCP between hosts, stepped by this thread, with bounded
// polling; no background thread.
std::unique_ptr<Subject> backend_subject();

}  // namespace rueda::bench
