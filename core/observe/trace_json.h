// SPDX-License-Identifier: Apache-2.0
// Events of a rank as lines of a Chrome trace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/observe/trace_event.h"
#include "rueda/types.h"

namespace rueda {

// The process that a rank's events come from, and its clock. A plain value.
struct TraceIdentity {
  Rank rank = 0;
  Rank size = 1;
  std::string host;
  std::int64_t process_id = 0;
  std::int64_t clock_offset_ns = 0;  // added to this machine's monotonic clock gives rank 0's
  std::int64_t origin_ns = 0;        // of rank 0's monotonic clock: time 0 of all ranks' timelines
  std::int64_t epoch_us = 0;         // since 1970, at the origin; equal on all ranks of a job only
};

// Purpose: turns events, in their order, into JSON objects, each after a comma on a line of its own. A tensor
// has a row of its own (a "thread" of the "process" that is the rank) with NEGOTIATE_ALLREDUCE, then
// ALLREDUCE around WAITING and the phases of its Work. Knows what is open, so that every begin is ended;
// memory is bounded by what is in flight and kMostRows. Owned by one thread; pure.
class TraceJson {
 public:
  static constexpr std::size_t kMostRows = 4096;  // with a name of their own; later names share rows

  explicit TraceJson(TraceIdentity identity) : identity_(std::move(identity)) {}

  // The first lines of a timeline; `session` counts the timelines of this job.
  std::string begin(std::uint64_t session) const;
  // Appends to `text`.
  void add(const TraceEvent& event, std::string& text);
  // The last line: this rank has told everything.
  std::string end(std::uint64_t lost) const;

 private:
  struct Flight {
    int row = 0;
    Operation operation = Operation::allreduce;
    int open = 0;  // slices that have begun and not ended
    std::uint64_t plan = 0;
    std::uint64_t bytes = 0;
    bool shared_row = false;
  };

  void put_begin(const Flight& flight, std::string_view name, std::int64_t time_ns, std::string& text) const;
  void put_end(const Flight& flight, std::int64_t time_ns, std::string& text) const;
  void put_moment(std::string_view name, const TraceEvent& event, std::string& text) const;
  void put_time(std::int64_t time_ns, std::string& text) const;
  int row_for(const std::string& label, bool& shared, std::string& text);
  const std::string& name_of(std::string_view phase);
  void submitted(const TraceEvent& event, std::string& text);
  void planned(const TraceEvent& event, std::string& text);
  void enter_phase(const TraceEvent& event, std::string& text);
  void ended(const TraceEvent& event, std::string& text);
  void forget_all(const TraceEvent& event, std::string& text);

  TraceIdentity identity_;
  std::unordered_map<std::string, int> rows_;  // by label
  std::vector<int> free_shared_rows_;
  int next_row_ = 1;                                                     // 0 is for moments
  std::unordered_map<std::uint64_t, Flight> flights_;                    // by ticket
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> plans_;  // their tickets
  std::unordered_map<std::string_view, std::string> phase_names_;        // as JSON, by phase
};

// "PACK" for "packing tensors": the phase of a Work as the name of a slice.
std::string phase_name(std::string_view phase);

}  // namespace rueda
