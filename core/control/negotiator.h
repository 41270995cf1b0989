// SPDX-License-Identifier: Apache-2.0
// How ranks agree on what to do next, and in which order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/control/caller.h"
#include "core/control/message.h"
#include "core/control/tally.h"
#include "core/control/transport.h"

namespace rueda {

// Purpose: one rank's node of the control tree. It counts who of its subtree has asked for a tensor, reports
// it once to the parent when all have, and passes Orders down; at rank 0 a complete tally goes to the Caller
// instead. Pure: bytes and time in, bytes and Plans out; no threads, no clock, no sockets. Owned by one
// Coordinator (or a simulation).
class Negotiator {
 public:
  struct Settings {
    std::int64_t fusion_threshold = 0;
    std::int64_t chunk_bytes = 1;
    Duration linger{};
    Planner::ChooseBackend choose_backend;  // asked on rank 0 only
  };

  Negotiator(Rank rank, Rank size, Settings settings);

  // This rank wants `request`; its name is not in flight here.
  void submit(const Request& request, Time now);
  // This rank will submit nothing more.
  void depart(Time now);
  // The job cannot go on; told to everybody who can be reached.
  void fail(Status status);
  void receive(Rank from, ConstBytes bytes, Time now);
  void tick(Time now);

  std::vector<Envelope> take_outgoing();
  std::vector<Plan> take_plans() { return std::exchange(plans_, {}); }

  // Every rank has departed and the last Plan is out.
  bool ended() const { return ended_; }
  // Why the job cannot go on; ok while it can.
  const Status& failure() const { return failure_; }
  // Whether tensors are on their way through this node.
  bool busy() const { return !tallies_.empty() || (caller_ && !caller_->idle()); }
  // Of this node's subtree, who has not departed.
  RankSet present() const { return subtree_ - departed_; }
  std::optional<Time> due() const { return caller_ ? caller_->due() : std::nullopt; }

 private:
  void take_message(Rank from, Report report, Time now);
  void take_message(Rank from, const Departure& departure, Time now);
  void take_message(Rank from, Orders orders, Time now);
  void take_message(Rank from, Failure failure, Time now);
  void take_message(Rank from, const Hello& hello, Time now);
  void take_message(Rank from, const Welcome& welcome, Time now);

  void count(Wish wish, Time now);
  void leave(const RankSet& ranks, Time now);
  bool complete(const Tally& tally) const;
  void settle(const Tally& tally, Time now);
  void issue(Orders orders);
  bool is_child(Rank from) const;

  Rank rank_;
  std::vector<Rank> children_;
  RankSet subtree_;
  std::unordered_map<std::string, Tally> tallies_;
  RankSet departed_;  // of the subtree

  Report report_;        // for the parent, not yet taken
  Departure departure_;  // for the parent, not yet taken
  std::vector<Envelope> outgoing_;
  std::vector<Plan> plans_;
  std::unique_ptr<Caller> caller_;  // at rank 0
  bool ended_ = false;
  Status failure_;
};

}  // namespace rueda
