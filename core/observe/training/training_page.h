// SPDX-License-Identifier: Apache-2.0
// The memory in which a rank keeps the history of its training, and the bounded reader of such memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/system/sealed_block.h"
#include "core/observe/training/plan_route.h"
#include "rueda/training.h"

namespace rueda {

// The rank trains no step meanwhile, and others may wait for it.
inline bool is_pause(Phase phase) { return phase == Phase::evaluation || phase == Phase::checkpoint; }

// Purpose: plain memory that another process may map and read at any time, also after the writer was killed.
// All zero but for the first words is a page without history: memory of a new file has no need to be
// touched. One writer (a TrainingRecord), any number of readers. A Route has a writer of its own, a
// RouteCounter.
struct TrainingPage {
  static constexpr std::uint64_t kMagic = 0x6e697274'64756572;  // "ruedtrin"
  static constexpr std::uint64_t kVersion = 3;
  static constexpr std::size_t kSpans = 4096;
  static constexpr std::size_t kRoutes = 256;
  static constexpr std::size_t kBackendBytes = 24, kInsideBytes = 16, kBetweenBytes = 24;
  static constexpr std::size_t kVerdictBytes = 128;
  static constexpr std::size_t kFailureBytes = 400, kStallBytes = 400;
  static constexpr std::size_t kTags = 64;
  static constexpr std::size_t kTagBytes = 64;
  static constexpr std::size_t kPoints = 512;

  enum SpanWord : std::uint8_t { span_number, span_phase, span_step, span_begin, span_end, span_words };
  enum GenerationWord : std::uint8_t { generation_number, generation_begin, generation_words };
  enum PointWord : std::uint8_t { point_number, point_step, point_value, point_seconds, point_words };
  enum SettingWord : std::uint8_t {
    setting_fusion,
    setting_linger,
    setting_chunk,
    setting_route,
    setting_tuned,
    setting_samples,
    setting_words
  };
  enum KindWord : std::uint8_t {
    kind_values,  // a byte each: operation, dtype, sent_as, ends_on_device, size_class
    kind_backend,
    kind_inside = kind_backend + kBackendBytes / 8,
    kind_between = kind_inside + kInsideBytes / 8,
    kind_words = kind_between + kBetweenBytes / 8
  };
  using Span = SealedBlock<span_words>;
  using Point = SealedBlock<point_words>;

  // One curve. Its points lie in no order. Those count whose number is a multiple of `stride`.
  struct Curve {
    std::uint64_t logged;  // values so far, of which the page keeps each `stride`-th
    std::uint64_t stride;  // 0: no value yet
    SealedBlock<kTagBytes / 8> tag;
    std::array<Point, kPoints> points;
  };

  // A kind of Plans, and its RouteCount. Several may be of the same kind. Counters share a cache line.
  struct Route {
    std::uint64_t plans;
    std::uint64_t tensors;
    std::uint64_t bytes;
    std::uint64_t nanoseconds;
    std::uint64_t fastest;
    std::uint64_t predicted_plans;
    std::uint64_t predicted;
    std::uint64_t spare;
    SealedBlock<kind_words> kind;
    std::array<std::uint64_t, 5> spare_words;
  };

  std::uint64_t magic;  // written last
  std::uint64_t version;
  std::uint64_t process_id;
  std::uint64_t step;
  std::uint64_t total_steps;
  std::uint64_t samples_per_step;
  std::uint64_t phase_since_ns;  // written before `phase`
  std::uint64_t phase;
  std::uint64_t clock_offset_ns;
  std::uint64_t spans_written;  // span number n lies in slot n modulo kSpans
  std::uint64_t curves_made;
  std::uint64_t routes_made;
  std::uint64_t plans_uncounted;  // there was no Route for them
  SealedBlock<setting_words> settings;
  SealedBlock<kVerdictBytes / 8> verdict;
  SealedBlock<kFailureBytes / 8> failure;
  SealedBlock<generation_words> generation;  // of an elastic job
  SealedBlock<kStallBytes / 8> stall;
  std::uint64_t failed_at_ns;  // written before `failure`
  std::uint64_t lost_at_ns;    // a rank was lost to this one
  std::array<std::uint64_t, 3> spare;
  std::array<Route, kRoutes> routes;
  std::array<Span, kSpans> spans;
  std::array<Curve, kTags> curves;
};
static_assert(sizeof(TrainingPage::Route) % 64 == 0 && offsetof(TrainingPage, routes) % 64 == 0);
static_assert(std::is_trivially_copyable_v<TrainingPage> && std::is_standard_layout_v<TrainingPage>);

// One phase that has ended. A plain value; times of this machine's monotonic clock.
struct PhaseSpan {
  Phase phase = Phase::other;
  std::uint64_t step = 0;  // so many had ended before
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

// One point of a curve. A plain value.
struct ScalarPoint {
  std::uint64_t number = 0;  // so many values of this tag were logged before
  std::uint64_t step = 0;
  double value = 0;    // may be no finite number
  double seconds = 0;  // of the wall clock, since 1970
};

// The points of one tag. A plain value.
struct ScalarCurve {
  std::string tag;                  // without control characters; need not be valid UTF-8
  std::uint64_t logged = 0;         // values so far: the cursor
  std::vector<ScalarPoint> points;  // oldest first
};

// A Route of a page. A plain value.
struct CountedRoute {
  std::uint32_t number = 0;  // of the page's; it keeps its kind
  RouteKind kind;
  RouteCount count;
  bool operator==(const CountedRoute&) const = default;
};

// The contents of a page. A plain value.
struct TrainingReading {
  std::int64_t process_id = 0;
  std::uint64_t step = 0;              // so many have ended
  std::uint64_t total_steps = 0;       // 0: unknown
  std::uint64_t samples_per_step = 0;  // of this rank; 0: unknown
  Phase phase = Phase::other;          // now
  std::int64_t phase_since_ns = 0;
  std::int64_t clock_offset_ns = 0;  // added to this machine's monotonic clock: rank 0's; 0: not yet known
  std::uint64_t spans_written = 0;   // the cursor
  std::vector<PhaseSpan> spans;      // oldest first
  std::vector<ScalarCurve> curves;   // in the order of their first points: an index never changes its tag
  PlanSettings settings;
  std::string failure;  // of the last operation that has failed, in words; empty: none has
  std::int64_t failed_at_ns = 0;
  std::string stall;  // of operations that wait for some ranks, in words; empty: none does
  std::uint64_t plans_uncounted = 0;
  std::vector<CountedRoute> routes;      // by number
  std::uint64_t generation = 0;          // of an elastic job: the process is one of its ranks
  std::int64_t generation_since_ns = 0;  // spans before are of another one; 0: of none
};

// The step and phase of the process just now. A plain value.
struct TrainingMoment {
  std::uint64_t step = 0;
  Phase phase = Phase::other;
  std::uint64_t spans_written = 0;  // it changes with each phase
  bool operator==(const TrainingMoment&) const = default;
};

// The last operation of the process that has failed. A plain value.
struct TrainingFailure {
  std::string words;            // empty: none has
  std::int64_t at_ns = 0;       // of this machine's monotonic clock
  std::int64_t lost_at_ns = 0;  // the same for operations that failed since a rank was lost, without words
};

// Nothing when the bytes are no page of this version. They may be changing, and may be anything. The reading
// has the spans that are still there from number `spans_from` on, and of curve i the points from number
// `points_from[i]` on; all of a curve beyond the list. It has each curve, also without a new point.
std::optional<TrainingReading> read_training_page(ConstBytes page, std::uint64_t spans_from = 0,
                                                  std::span<const std::uint64_t> points_from = {});
// The same of a few words.
std::optional<TrainingMoment> read_training_moment(ConstBytes page);
std::optional<TrainingFailure> read_training_failure(ConstBytes page);

}  // namespace rueda
