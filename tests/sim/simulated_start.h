// SPDX-License-Identifier: Apache-2.0
// The start of a whole job on a network with latencies and limits: how long, and how many bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/control/bootstrap/bootstrap.h"
#include "tests/sim/simulated_network.h"

namespace rueda {

struct StartCosts {
  double connect = 150;  // microseconds that a rank is busy with taking a connection
  double gigabits = 10;  // a second, in and out of a host
};

// Microseconds that a host is busy with so many bytes.
double transfer_time(std::uint64_t bytes, double gigabits);

// Times in microseconds from the moment when all processes run and can find rank 0.
struct StartResult {
  double all_heard = 0;           // by rank 0
  double all_told = 0;            // the last rank has the Welcome
  std::uint64_t connections = 0;  // that rank 0 takes
  std::uint64_t root_received = 0, root_sent = 0;
  std::uint64_t list = 0;          // bytes of the Welcome
  std::uint64_t most_relayed = 0;  // bytes that one of the other ranks sends
  std::uint64_t direct = 0;        // bytes that rank 0 would send if it gave every rank the Welcome
};

// Purpose: one start. Rank 0 is a real Bootstrap, which hears the real introductions of all ranks, one
// connection after another. Of the others the first rank that relays is real; the rest send the same bytes
// along the same tree, so only their times are computed. Throws std::runtime_error where the real ones do not
// do what the tree says. What it is made of outlives it.
class SimulatedStart {
 public:
  // `hosts`: of each rank.
  SimulatedStart(std::vector<std::string> hosts, const ClusterShape& shape, const StartCosts& costs);

  // The rank can reach rank 0 from then on. Times ascend.
  void come(Rank rank, double time) { waiting_.emplace_back(rank, time); }
  // Rank 0 takes the next connection, if one waits. Returns when it has.
  std::optional<double> hear_next();
  bool has_heard_all() const { return heard_ + 1 == hosts_.size(); }
  // After that: when each rank has the Welcome.
  std::vector<double> tell_all();

  const StartResult& result() const { return result_; }

 private:
  void relay(const Bytes& welcome, std::vector<double>& told);
  void check_a_relay(const Bytes& welcome) const;
  Rank size() const { return static_cast<Rank>(hosts_.size()); }

  const std::vector<std::string> hosts_;
  const ClusterShape& shape_;
  const StartCosts& costs_;
  Bootstrap root_;
  StartResult result_;
  std::vector<std::pair<Rank, double>> waiting_;  // those that have come, with the time
  std::size_t heard_ = 0;                         // of them
  double free_at_ = 0;                            // rank 0
  std::vector<Rank> parents_;
};

StartResult simulate_start(const ClusterShape& shape, const StartCosts& costs);

}  // namespace rueda
