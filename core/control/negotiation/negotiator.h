// SPDX-License-Identifier: Apache-2.0
// How ranks agree on what to do next, and in which order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/control/autotune/autotuner.h"
#include "core/control/messages/control_message.h"
#include "core/control/messages/transport.h"
#include "core/control/negotiation/plan_aborts.h"
#include "core/control/negotiation/process_sets.h"
#include "core/control/negotiation/readiness_table.h"
#include "core/control/negotiation/root_state.h"
#include "core/control/negotiation/stall_inspector.h"
#include "core/control/negotiation/tree.h"

namespace rueda {

// Purpose: one rank's node of the control tree. It counts which of its contributors (itself and its children)
// have asked for a tensor (ReadinessTable), reports it once to the parent when all have, and passes Orders
// down; at rank 0 a complete one goes to the Coordinator instead. Pure: bytes and time in, bytes and Plans
// out; no threads, no clock, no sockets. Owned by one ProgressEngine (or a simulation).
class Negotiator : private ReadinessTable::Listener {
 public:
  struct Settings {
    FusionPlanner::ChooseBackend choose_backend;  // asked on rank 0 only, of Plans that have their members
    FusionPlanner::ChooseBackend second_backend;  // the next best; none needed without tuning
    std::int64_t chunk_bytes = 1;
    Coordinator::Settings coordinator;
    std::vector<RankSet> process_sets;             // that are there from the start, with the ids 1, 2, ...
    std::optional<TuningSearch::Settings> tuning;  // its defaults are those given here
    bool full_join = false;  // joined ranks take part in every operation but a broadcast of their own
    StallInspector::Settings stalls;
    std::shared_ptr<RequestCache> shared_cache;  // simulations; else the Negotiator has its own
  };

  Negotiator(TreeNode node, Rank size, Settings settings);

  // This rank wants `request`; its key is not in flight here, and this rank is a member of its process set.
  // `likely`: the id under which this name was submitted last. Tells under which it is now; 0: in full.
  CacheId submit(const SharedRequest& request, Time now, CacheId likely = 0);
  // This rank will submit nothing more.
  void depart(Time now);
  // It has departed, and carried out all it asked for.
  void rest();
  // This rank cannot carry out that Plan, which has reached it. Comes back by take_aborts(), on every rank in
  // the same words: those of the first who said so, as rank 0 sees it.
  void abort(std::uint64_t plan, Status status);
  // The Work of that Plan, which has called `request`, has not moved here since `since`. May be said again.
  void notice_unmoved(const SharedRequest& request, std::uint64_t plan, Time since, Time now);
  // The job cannot go on; told to everybody who can be reached.
  void fail(Status status);
  void receive(Rank from, ConstBytes bytes, Time now);
  // `works_run`: Plans that came out here are under way.
  void tick(Time now, bool works_run);

  std::vector<Envelope> take_outgoing();
  std::vector<Plan> take_plans() { return std::exchange(plans_, {}); }
  // Plans among those that were taken, or come with take_plans(): take these first.
  std::vector<Abort> take_aborts() { return aborts_.take(); }
  // Returns stall reports for the log: at rank 0, or at a node that rank 0 does not answer.
  std::vector<std::string> take_reports() { return stalls_.take_reports(); }
  // On all ranks: the ranks that operations wait for.
  std::vector<Missing> take_missing() { return stalls_.take_missing(); }
  // Of the stalls that go on; empty: there is none.
  std::string_view oldest_report() const { return stalls_.oldest_report(); }

  using LastOne = RootState::LastOne;
  // At rank 0; else there are none.
  std::vector<LastOne> take_last_ones();

  // Every rank rests and the last Plan is out.
  bool ended() const { return ended_; }
  // Why the job cannot go on; ok while it can.
  const Status& failure() const { return failure_; }
  // Whether tensors are on their way through this node.
  bool busy() const { return table_.open() > 0 || (root_ && !root_->coordinator->idle()); }
  // Returns the ranks of this node's subtree that have not departed.
  RankSet present() const { return node_.subtree - sets_.departed(); }
  const ProcessSets& sets() const { return sets_; }
  std::optional<Time> due() const;

  // At rank 0, while tuning is on; else nullptr.
  Autotuner* tuner() const { return root_ ? root_->tuner.get() : nullptr; }

  // Requests of this rank that went as a bit, and in full.
  struct CacheUse {
    std::uint64_t hits;
    std::uint64_t misses;
  };
  CacheUse cache_use() const { return {table_.hits(), table_.misses()}; }

 private:
  // Messages come in.
  void take_report(Contributor from, Report report, Time now);
  void take_orders(Orders orders, Bytes bytes, Time now);
  void take_abort(Rank from, Abort abort);
  std::optional<Contributor> contributor_of(Rank rank) const;
  Rank rank_of(Contributor contributor) const;
  void refuse_message(Rank from, std::string_view what);
  void leave(const RankSet& ranks, Time now);

  // The ReadinessTable calls these.
  void all_have(Contributor from, Time since, Time now) override;
  void ready(CacheId id, const SharedRequest& request, Time now) override;
  void ready(Readiness& readiness, Time now) override;
  void invalid(Contributor from, std::string_view what) override { refuse_message(rank_of(from), what); }

  // At rank 0.
  void decide(const SharedRequest& request, Time now);
  void issue(Orders orders, Time now);

  // The last look at what is incomplete.
  struct Inspected {
    Time at{};
    std::uint64_t applied = 0;  // table_.applied()
    Time progress{};            // seen: that has grown
  };

  // Orders go down.
  void send_to_children(Bytes bytes);
  void announce(Abort abort);

  void inspect(Time now);

  const TreeNode node_;
  ProcessSets sets_;
  ReadinessTable table_;
  StallInspector stalls_;
  std::optional<RootState> root_;                // at rank 0
  std::vector<std::uint64_t> children_applied_;  // as the children have told
  std::uint64_t told_ = 0;                       // what the parent knows of table_.applied()
  Inspected inspected_;

  Report report_;  // for the parent
  std::vector<Envelope> outgoing_;
  std::vector<Plan> plans_;
  PlanAborts aborts_;
  bool ended_ = false;
  Status failure_;
};

}  // namespace rueda
