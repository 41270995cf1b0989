// SPDX-License-Identifier: Apache-2.0
// Counts what a rank has done so far, and which ranks kept it waiting.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "rueda/metrics.h"  // IWYU pragma: export
#include "rueda/types.h"

namespace rueda {

// Purpose: a number that one thread counts up and any thread reads. Guarded by being atomic; with one writer
// no locked instruction is needed.
class Counter {
 public:
  void add(std::uint64_t amount = 1) { set(get() + amount); }
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Purpose: the counters behind MetricsSnapshot. The background thread counts, any thread takes snapshots.
// Lives in the Runtime.
class Metrics {
 public:
  // Once, before anybody else looks.
  void begin(Rank rank, Rank size, std::string host, std::int64_t fusion_threshold);

  // By rank 0: `rank` was the last to submit an operation, `seconds` after the one before it.
  void waited_for(Rank rank, double seconds);
  // When a generation of an elastic job has begun.
  void use(const MetricsSnapshot::Membership& membership);
  void completed(Operation operation, std::uint64_t bytes, bool ok);
  void fusion_threshold(std::int64_t bytes) {
    plans_.fusion_threshold.set(static_cast<std::uint64_t>(bytes));
  }
  void use(const TuningParameters& parameters);  // the tuner has put these in force
  void plan_started(std::size_t tensors, std::int64_t buffer_bytes);
  void plan_ended() { plans_.in_flight.set(plans_.in_flight.get() - 1); }

  // Durations in nanoseconds.
  class Durations {
   public:
    void add(std::int64_t nanoseconds);
    Histogram snapshot() const;

   private:
    std::array<Counter, Histogram::kBounds.size() + 1> counts_;
    Counter sum_;  // nanoseconds
  };
  Durations negotiation;
  Durations waiting;
  Durations data;
  Counter cache_hits;
  Counter cache_misses;
  Counter last_submission;  // times, in nanoseconds
  Counter last_plan;

  MetricsSnapshot snapshot() const;

 private:
  struct ByOperation {
    Counter completed, failed, bytes;
  };
  struct Waited {
    Counter times, nanoseconds;
  };

  struct Identity {
    Rank rank = 0;
    Rank size = 1;
    std::string host;
  };
  Identity identity_;                 // written by begin() alone
  std::unique_ptr<Waited[]> waited_;  // by rank, at rank 0
  std::array<ByOperation, kOperationCount> operations_;
  struct Plans {
    Counter count, fused, fused_tensors, fused_bytes, fusion_threshold;
    Counter in_flight, most_in_flight;
  };
  struct Tuning {
    Counter times, linger, chunk_bytes, route_bytes;
  };
  struct Membership {
    Counter generations, lost, joined, nanoseconds_standing_still;
  };
  Plans plans_;
  Tuning tuning_;
  Membership membership_;
};

}  // namespace rueda
