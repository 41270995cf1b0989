// SPDX-License-Identifier: Apache-2.0
// How ranks agree on what to do next, and in which order.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/control/autotune/autotuner.h"
#include "core/control/messages/control_message.h"
#include "core/control/messages/transport.h"
#include "core/control/negotiation/cached_readiness.h"
#include "core/control/negotiation/process_sets.h"
#include "core/control/negotiation/readiness.h"
#include "core/control/negotiation/request_cache.h"
#include "core/control/negotiation/stall_inspector.h"
#include "core/control/negotiation/tree.h"
#include "core/control/scheduling/coordinator.h"

namespace rueda {

// Purpose: one rank's node of the control tree. It counts which of its contributors (itself and its children)
// have asked for a tensor, reports it once to the parent when all have, and passes Orders down; at rank 0
// what is complete goes to the Coordinator instead. What the cache knows is counted by bits
// (CachedReadiness), all else in a Readiness of its own; a key is never in both. Pure: bytes and time in,
// bytes and Plans out; no threads, no clock, no sockets. Owned by one ProgressEngine (or a simulation).
class Negotiator {
 public:
  struct Settings {
    FusionPlanner::ChooseBackend choose_backend;  // asked on rank 0 only, of Plans that have their members
    FusionPlanner::ChooseBackend second_backend;  // the next best; none needed without tuning
    std::int64_t chunk_bytes = 1;
    Coordinator::Settings caller;
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
  std::vector<Abort> take_aborts() { return std::exchange(aborts_, {}); }
  // What stalls, in words for the log: at rank 0, or where it does not answer.
  std::vector<std::string> take_reports() { return stalls_.take_reports(); }

  // At rank 0: who was the last to want something (of a subtree: its uppermost rank), and how long after the
  // first.
  struct LastOne {
    Rank rank = 0;
    Duration after{};
  };
  std::vector<LastOne> take_last_ones() { return std::exchange(last_ones_, {}); }

  // Every rank rests and the last Plan is out.
  bool ended() const { return ended_; }
  // Why the job cannot go on; ok while it can.
  const Status& failure() const { return failure_; }
  // Whether tensors are on their way through this node.
  bool busy() const { return open() > 0 || (coordinator_ && !coordinator_->idle()); }
  // Of this node's subtree, who has not departed.
  RankSet present() const { return node_.subtree - sets_.departed(); }
  const ProcessSets& sets() const { return sets_; }
  std::optional<Time> due() const;

  // At rank 0, while tuning is on; else nullptr.
  Autotuner* tuner() const { return tuner_.get(); }

  // Requests of this rank that went as a bit, and in full.
  std::uint64_t cache_hits() const { return hits_; }
  std::uint64_t cache_misses() const { return misses_; }

 private:
  using Tallies = ByKey<Readiness>;

  void take_message(Contributor from, Report report, Time now);
  void take_orders(Orders orders, ConstBytes bytes, Time now);
  void take_abort(Rank from, Abort abort);
  std::optional<Contributor> contributor_of(Rank rank) const;
  Rank rank_of(Contributor contributor) const;
  void refuse_message(Rank from, std::string_view what);

  // Reports come in.
  void add_bits(Contributor from, const IdSet& ids, Time now);
  std::uint16_t needed(CacheId id) const;
  void add_bit_elsewhere(Contributor from, CacheId id, Time now);
  void add_wishes(Contributor from, std::vector<Wish> wishes, Time now);
  void note_last(Contributor from, Time since, Time now);
  Readiness& tally_of(const Request& request, Time now);
  void leave(const RankSet& ranks, Time now);

  // Something is complete here.
  bool complete(const Key& key, const Readiness& tally) const;
  void settle_id(CacheId id, Time now);
  void settle(const Key& key, Time now);
  void settle_complete(Time now);
  void conclude(const Readiness& tally, Time now);
  Status objection(const Readiness& tally, const ProcessSets::View& view) const;
  Status objection_without(const RankSet& joined, const Request& request) const;
  void decide(const SharedRequest& request, Time now);

  // Orders go down.
  void issue(Orders orders, Time now);
  void apply(Plan& plan, Time now);
  bool first_abort(std::uint64_t plan);
  void announce(Abort abort);
  void count_in_tallies(std::optional<ProcessSetId> set, Time now);
  void remove_set(ProcessSetId set);
  void forget_ended_ids();

  void inspect(Time now);
  std::size_t open() const { return counter_.open() + tallies_.size(); }
  bool is_leaf() const { return node_.rank != 0 && node_.children.empty(); }

  const TreeNode node_;
  ProcessSets sets_;
  const bool full_join_;
  const bool owns_cache_;
  std::shared_ptr<RequestCache> cache_;
  std::uint64_t applied_ = 0;                    // the number of the last Plan that was issued here
  std::vector<std::uint64_t> children_applied_;  // as the children have told
  std::uint64_t told_ = 0;                       // what the parent knows of applied_
  IdSet one_id_;                                 // room for what this rank submits
  CachedReadiness counter_;
  Tallies tallies_;
  std::unique_ptr<Autotuner> tuner_;          // at rank 0, may be none; the caller uses it
  std::unique_ptr<Coordinator> coordinator_;  // at rank 0
  StallInspector stalls_;
  Time inspected_{};
  ProcessSetId next_set_ = 1;  // at rank 0
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
  std::vector<LastOne> last_ones_;

  Report report_;    // for the parent
  RankSet leaving_;  // with the Report that is being read
  std::vector<Envelope> outgoing_;
  std::vector<Plan> plans_;
  std::set<std::uint64_t> known_aborts_;  // Plans of which it is known here; the latest of them
  std::vector<Abort> aborts_;
  RankSet rested_;              // at rank 0
  std::uint8_t next_area_ = 0;  // there
  bool takes_part_ = true;      // there: in the last Plan; else it does not see when that is over
  bool ended_ = false;
  Status failure_;
};

}  // namespace rueda
