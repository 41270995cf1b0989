// SPDX-License-Identifier: Apache-2.0
// The counters of a rank, the ranks that kept others waiting, and the parameters that rank 0 may change while
// a job runs.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "rueda/types.h"

namespace rueda {

// Purpose: one choice of everything that the autotuner tunes: how ready tensors are fused, and which backend
// they take. A plain value; only rank 0's counts.
struct TuningParameters {
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();  // bytes

  std::int64_t fusion_threshold = 0;             // bytes of a fused buffer, at most
  std::chrono::steady_clock::duration linger{};  // how long a ready tensor waits for more tensors, at most
  std::int64_t chunk_bytes = 1;                  // of a message of a ring algorithm, at most
  // Plans of at most so many bytes take the first backend that can run them, larger ones the second.
  std::int64_t route_bytes = kUnlimited;

  // Whether all four are the same.
  friend bool operator==(const TuningParameters&, const TuningParameters&) = default;
};

// How many durations there were below each bound, and their sum. A plain value.
struct Histogram {
  // Seconds; the last of `counts` is for all that is longer.
  static constexpr std::array<double, 19> kBounds{1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2,
                                                  2e-2, 5e-2, 0.1,  0.2,  0.5,  1.0,  2.0,  5.0,  10.0};

  std::array<std::uint64_t, kBounds.size() + 1> counts{};  // by bound
  std::uint64_t count = 0;                                 // of all
  double sum = 0;                                          // seconds
};

// The result of metrics(): a plain value. Its counters are read one after another, so they may disagree.
struct MetricsSnapshot {
  // Of one kind of operation since init().
  struct OperationCounts {
    Operation operation = Operation::allreduce;  // which
    std::uint64_t completed = 0;                 // without an error
    std::uint64_t failed = 0;                    // with one
    std::uint64_t bytes = 0;  // of the tensors of completed operations, as this rank submitted them
  };
  // Of one rank that others had to wait for.
  struct WaitedFor {
    Rank rank = 0;            // who
    std::uint64_t times = 0;  // how often this rank was the last to submit
    double seconds = 0;       // from the second to last rank's submission to its
  };

  // How the ranks of an elastic job have changed since this process has come in.
  struct Membership {
    std::uint64_t generations = 0;      // that it has been in; 0: the job is not elastic
    std::uint64_t lost = 0;             // workers that are gone, or have left
    std::uint64_t joined = 0;           // workers that have come
    double seconds_standing_still = 0;  // between the shutdown() of a generation and the next init()
  };

  Rank rank = 0;                            // this one
  Rank size = 1;                            // of the job
  std::string host;                         // this one's
  std::vector<OperationCounts> operations;  // one for each Operation
  Histogram negotiation;                    // from submission to the arrival of the Plan, by tensor
  Histogram waiting;                        // from there to the start of the Work, by Plan
  Histogram data;                           // from there to its end, by Plan
  std::uint64_t plans = 0;                  // carried out
  std::uint64_t fused_plans = 0;            // those of more than one tensor
  std::uint64_t fused_tensors = 0;          // in them
  std::uint64_t fused_bytes = 0;            // of these
  std::uint64_t fusion_threshold = 0;  // bytes: fused_bytes / (fused_plans x this) is how full buffers were
  std::uint64_t works_in_flight = 0;   // now
  std::uint64_t most_works_in_flight = 0;  // at once so far
  std::uint64_t cache_hits = 0;            // submissions that the request cache knew
  std::uint64_t cache_misses = 0;          // those that it did not
  std::uint64_t timeline_events_lost = 0;  // for which the writer had no room
  // By this machine's monotonic clock, in nanoseconds; 0: there was none.
  std::int64_t last_submission_ns = 0;  // when the background thread took the last operation
  std::int64_t last_plan_ns = 0;        // when the last Plan for an operation of this rank arrived
  std::int64_t clock_offset_ns = 0;     // added to a time of that clock gives rank 0's
  bool tuned = false;                   // rank 0 only, while tuning is on
  TuningParameters parameters;          // those in force, if so
  std::vector<WaitedFor> waited_for;    // known to rank 0 only; the slowest first
  Membership membership;
};

// In the text format of Prometheus, version 0.0.4.
std::string to_prometheus_text(const MetricsSnapshot& metrics);

// Returns the counters of this rank since init(). Callable from any thread. Throws NotInitialized before
// init() and after shutdown().
MetricsSnapshot metrics();

}  // namespace rueda
