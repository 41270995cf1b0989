// SPDX-License-Identifier: Apache-2.0
// The timeline of a simulation: what Rueda's own would be, by the clock of the simulation.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/control/negotiation/negotiator.h"
#include "core/observe/trace_file.h"
#include "core/observe/trace_json.h"
#include "tests/sim/simulated_network.h"

namespace rueda {

// Purpose: one file for the first ranks of a simulated job. Data moves in no time, so that operations end
// when their Plan comes. Throws std::runtime_error when the file cannot be written.
class SimulatedTrace {
 public:
  SimulatedTrace(const std::string& path, const ClusterShape& shape, Rank shown);

  void submitted(Rank rank, Time now, const std::vector<SharedRequest>& requests);
  void told(Rank rank, Time now, const Plan& plan);
  // All that the rank has in flight ends here.
  void failed(Rank rank, Time now);
  // The file is complete.
  void end();

 private:
  struct Row {
    TraceJson text;
    std::unordered_map<std::string, std::uint64_t> tickets;  // in flight, by name
  };

  bool shown(Rank rank) const { return static_cast<std::size_t>(rank) < ranks_.size(); }
  void add(Row& row, const TraceEvent& event) { row.text.add(event, lines_); }
  void flush(std::size_t least);

  TraceFile file_;
  std::vector<Row> ranks_;
  std::uint64_t next_ticket_ = 1;
  std::string lines_;  // not written yet
};

}  // namespace rueda
