// SPDX-License-Identifier: Apache-2.0
// What agents tell ruedarun of their ranks and hosts while somebody watches the job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/observe/training/training_page.h"
#include "launcher/system/gpu_watch.h"

namespace rueda::agents {

// Both are far below the cost that an agent may send ahead.
inline constexpr std::size_t kMostSpans = 300;   // in one message
inline constexpr std::size_t kMostPoints = 300;  // of all curves, in one message
inline constexpr std::size_t kMostRoutes = 48;   // in one message
inline constexpr std::size_t kMostCards = 64;

// ruedarun to agent: tell what is new now, and every so many milliseconds. 0: no more.
struct Watch {
  std::uint32_t milliseconds = 0;
  bool operator==(const Watch&) const = default;
};

// Agent to ruedarun: a rank as it is now, and what is new of its history.
struct Observed {
  struct Span {
    Phase phase = Phase::other;
    std::uint64_t step = 0;
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    bool operator==(const Span&) const = default;
  };
  struct Point {
    std::uint64_t step = 0;
    double value = 0;
    bool operator==(const Point&) const = default;
  };
  struct Curve {
    std::string tag;
    std::vector<Point> points;
    bool operator==(const Curve&) const = default;
  };

  std::int32_t rank = 0;
  std::int64_t now_ns = 0;           // of its host's monotonic clock, as all times here
  std::int64_t clock_offset_ns = 0;  // to rank 0's; 0: not known
  std::uint64_t resident_bytes = 0;
  double cpu_seconds = 0;
  bool has_training = false;             // else the rest is unknown
  std::uint64_t generation = 0;          // of an elastic job: the rank is of it
  std::int64_t generation_since_ns = 0;  // spans before are of another one; 0: of none
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  std::uint64_t samples_per_step = 0;
  Phase phase = Phase::other;
  std::int64_t phase_since_ns = 0;
  std::vector<Span> spans;    // oldest first
  std::vector<Curve> curves;  // those with new points
  PlanSettings settings;
  std::string failure;  // of the last operation that has failed, in words
  std::int64_t failed_at_ns = 0;
  std::string stall;  // of operations that wait for some ranks, in words
  std::uint64_t plans_uncounted = 0;
  std::vector<CountedRoute> routes;  // those with new Plans
  bool operator==(const Observed&) const = default;
};

// Agent to ruedarun: its machine.
struct HostLoad {
  struct Card {
    std::string name;
    std::uint64_t sent_bytes = 0;  // so far
    std::uint64_t received_bytes = 0;
    double limit = 0;  // bytes per second; 0: unknown
    double speed = 0;  // the same, of what TCP sends while data wait for the card
    bool operator==(const Card&) const = default;
  };

  std::int64_t now_ns = 0;
  std::int32_t cores = 0;
  double busy = 0;  // of all cores, since the message before
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_used = 0;
  double load = 0;  // processes that run or want to
  std::vector<Card> cards;
  std::vector<GpuLoad> gpus;
  bool operator==(const HostLoad&) const = default;
};

void write(Writer& writer, const Watch& message);
void read(Reader& reader, Watch& message);
void write(Writer& writer, const Observed& message);
void read(Reader& reader, Observed& message);
void write(Writer& writer, const HostLoad& message);
void read(Reader& reader, HostLoad& message);

}  // namespace rueda::agents
