// SPDX-License-Identifier: Apache-2.0
// The one place where the background thread says what happens; recorder, metrics and timeline hear it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/control/messages/plan.h"
#include "core/control/messages/request.h"
#include "core/control/negotiation/negotiator.h"
#include "core/observe/metrics.h"
#include "core/observe/recorder.h"
#include "core/observe/timeline.h"
#include "core/observe/training/route_counter.h"
#include "core/observe/tuning_log.h"

namespace rueda {

// Purpose: everything that can be observed of one rank. The background thread calls what is named after an
// event, in this order for one tensor: submitted, planned, started, doing (each step), finished, completed;
// what it tells of a tensor lies in the Flight, which the caller keeps with the tensor. Any thread may ask
// recorder(), metrics() and timeline() for what they tell. Lives in the Runtime.
class Observer {
 public:
  // Before anything else, and before other threads ask.
  void begin(const TraceIdentity& identity, const TuningParameters& parameters);

  Flight submitted(const Request& request, Time now);
  void planned(const Plan& plan, Time now);              // it has arrived
  void planned(const Plan& plan, const Flight& flight);  // with this tensor
  void started(const Plan& plan, Time now);              // it has a Work
  void started(const Flight& flight);                    // the tensor's Plan has
  void doing(const Plan& plan, std::string_view phase);
  void finished(const Plan& plan);  // its Work is over
  // The same, and it is done. `how` has the route, the backend, the bytes and the prediction.
  void finished(const Plan& plan, const EndedPlan& how);
  void completed(const Request& request, const Flight& flight, bool ok);
  void ended(const Status& status);       // of the operations that have completed last
  void failed(const Status& status);      // of operations that were refused, say; OK: none has failed
  void stalled(std::string_view report);  // empty: nothing is
  void agreed(Negotiator& negotiator);    // it has heard or said something
  void turned();                          // a round of the background thread that moved something
  void doing(std::string_view activity) { recorder_.doing(activity); }

  Recorder& recorder() { return recorder_; }
  const Recorder& recorder() const { return recorder_; }
  Timeline& timeline() { return timeline_; }
  TuningLog& tuning_log() { return tuning_log_; }  // of the background thread
  Metrics& counters() { return metrics_; }
  MetricsSnapshot metrics() const;

 private:
  // A Plan between its arrival and the end of its Work.
  struct Run {
    std::uint64_t number = 0;
    std::int64_t planned_ns = 0;
    std::int64_t started_ns = 0;  // 0: not yet
    std::string_view phase;       // the last one told to the timeline
  };
  std::deque<Run>::iterator find(const Plan& plan);
  std::int64_t end(const Plan& plan);

  Recorder recorder_;
  Metrics metrics_;
  Timeline timeline_;
  TuningLog tuning_log_;
  RouteCounter routes_;
  std::uint64_t cache_hits_ = 0;  // counted so far
  std::uint64_t cache_misses_ = 0;
  std::int64_t planned_ns_ = 0;  // the Plan that arrived last
  std::int64_t started_ns_ = 0;  // the Plan that was started last
  std::deque<Run> runs_;         // in the order of their numbers
  std::string told_stall_;       // the report of the stall that goes on
};

}  // namespace rueda
