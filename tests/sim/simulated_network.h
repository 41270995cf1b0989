// SPDX-License-Identifier: Apache-2.0
// The control plane of a whole cluster on a network with latencies, in one process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "core/control/negotiation/negotiator.h"

namespace rueda {

// What is simulated. Times in microseconds.
struct ClusterShape {
  Rank ranks = 8;
  Rank ranks_per_host = 8;
  Rank radix = tree::kRadix;
  double hop = 3.0;      // from a message's leaving to its arrival
  double message = 0.5;  // that a node is busy with sending, or with receiving, one message
  double linger = 1000.0;
  std::int64_t fusion_threshold = 64 << 20;
  std::int64_t cache_capacity = 1024;
};

std::string host_name(Rank rank, const ClusterShape& shape);

// The clock of a simulation, as Negotiators read it.
Time time_of(double microseconds);
double microseconds_of(Time time);

// Purpose: N real Negotiators joined by simulated links, driven by events in the order of their time. A node
// deals with one message after another; links are first in first out. The Negotiators share one RequestCache.
class SimulatedNetwork {
 public:
  explicit SimulatedNetwork(const ClusterShape& shape);

  Rank size() const { return static_cast<Rank>(nodes_.size()); }
  double now() const { return now_; }  // microseconds
  // `action` runs at `time` on `rank`'s node, which then is asked what it has to say.
  void at(double time, Rank rank, std::function<void(Negotiator&, Time)> action);
  using Told = std::function<void(Rank, const Plan&, double time)>;
  using Failed = std::function<void(Rank, const Status&, double time)>;
  // Until nothing happens any more. `told`: a rank has got a Plan. `failed`: it knows that the job cannot go
  // on, has told its neighbours, and is silent from now on.
  void run(const Told& told, const Failed& failed = {});
  // From `time` on the rank neither hears nor says anything. Each of its neighbours in the tree is told so,
  // as a Transport tells who is lost, at a random moment within `notice`.
  void lose(double time, Rank rank, double notice, std::mt19937& random);

  // Sent and received since the last reset.
  struct Traffic {
    std::uint64_t messages = 0;
    std::uint64_t root_bytes = 0;
    std::uint64_t largest_message = 0;
  };
  const Traffic& traffic() const { return traffic_; }
  void reset_traffic() { traffic_ = {}; }

 private:
  struct Node {
    std::unique_ptr<Negotiator> negotiator;
    double free_at = 0;   // it is busy until then
    double wakes_at = 0;  // a timer is set for then
    bool silent = false;
  };
  struct Event {
    Rank from = 0;
    Rank to = 0;
    std::shared_ptr<const Bytes> bytes;  // none: not a message
    std::function<void(Negotiator&, Time)> action;
  };
  // When an event happens. Beside it, so that sorting does not touch it.
  struct Due {
    double time = 0;
    std::uint64_t order = 0;  // of two at one time the earlier made comes first
    std::size_t slot = 0;     // in events_
    bool operator>(const Due& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  void push(double time, Event event);
  void handle(Event& event, const Told& told, const Failed& failed);
  void collect(Rank rank, const Told& told, const Failed& failed);

  const ClusterShape shape_;
  std::vector<Node> nodes_;
  std::vector<Event> events_;        // slots are used again
  std::vector<std::size_t> unused_;  // slots
  std::priority_queue<Due, std::vector<Due>, std::greater<>> queue_;
  std::uint64_t next_order_ = 0;
  double now_ = 0;
  Traffic traffic_;
  std::shared_ptr<const Bytes> last_payload_;  // what goes to several children is kept once
};

}  // namespace rueda
