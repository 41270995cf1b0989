// SPDX-License-Identifier: Apache-2.0
// Which tensors the contributors of one node of the control tree have asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/control/messages/control_message.h"
#include "core/control/negotiation/cached_readiness.h"
#include "core/control/negotiation/process_sets.h"
#include "core/control/negotiation/readiness.h"
#include "core/control/negotiation/request_cache.h"

namespace rueda {

// Purpose: counts who has asked for a tensor, and tells when all have. Requests that the cache knows are
// counted by bits (CachedReadiness), all others by a Readiness of their own; a key is never in both. The
// number of the last Plan is the clock of the cache: all before it is looked up as it was. Owned by a
// Negotiator.
class ReadinessTable {
 public:
  // Hears what becomes of reports, while they are added.
  class Listener {
   public:
    // `from` came last, and all waited for it `since` then.
    virtual void all_have(Contributor from, Time since, Time now) = 0;
    // Every contributor has asked for a tensor, by its id or in full.
    virtual void ready(CacheId id, const SharedRequest& request, Time now) = 0;
    virtual void ready(Readiness& readiness, Time now) = 0;
    // `from` has sent what cannot be.
    virtual void invalid(Contributor from, std::string_view what) = 0;

   protected:
    ~Listener() = default;
  };

  // `shared_cache`: of a simulation; null: one of its own. All else outlives this.
  ReadinessTable(std::size_t contributors, ProcessSets& sets, std::shared_ptr<RequestCache> shared_cache,
                 Listener& listener);

  // The id of what this rank asks for, as find() of the cache; counts hits.
  CacheId look_up(const SharedRequest& request, CacheId likely);
  void add(Contributor from, const IdSet& ids, Time now);
  void add(Contributor from, std::vector<RequestOfRanks> requests, Time now);
  // The same of this node itself, one id.
  void add_own(CacheId id, Time now);
  // Ranks below have departed.
  void depart(const RankSet& ranks, Time now);

  // Plans are cached, and end ids of the cache. False where a Plan names ids that are not in use.
  bool resolve(Plan& plan) { return cache_->resolve(plan, applied_); }
  void apply(const Plan& plan, Time now);
  void end_join(ProcessSetId set);
  void remove_set(ProcessSetId set);
  // The ranks of that set have to be told apart from now on.
  void count_in_full(ProcessSetId set, Time now) { count_in_full(std::optional(set), now); }
  // Ids that ended up to a Plan are read no more.
  void forget(std::uint64_t plan);

  // The number of the last Plan that was applied.
  std::uint64_t applied() const { return applied_; }
  bool gave(const IdSet& ids) const;
  // Tensors for which some have asked, not all.
  std::size_t open() const { return known_.open() + others_.size(); }
  // The same without messages, which wait for one rank and share no buffer.
  std::size_t open_collectives() const { return open() - messages_; }
  // Calls visit(request, since) for each of them.
  template <class Visit>
  void for_open(Visit visit) const {
    for (CacheId id : known_.open_ids()) visit(cache_->request(id, applied_), known_.look(id).since);
    for (const auto& [key, readiness] : others_) visit(readiness.request(), readiness.since());
  }
  // One of a set, which is counted in full; null: there is none.
  const Readiness* any_of(ProcessSetId set) const;
  // Requests of this rank that went as a bit, and in full.
  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

 private:
  std::uint16_t needed(CacheId id) const;
  void add_in_full(Contributor from, CacheId id, Time now);
  void count_in_full(std::optional<ProcessSetId> set, Time now);
  Readiness& readiness_of(const Request& request, Time now);
  bool complete(const Key& key, const Readiness& readiness) const;
  void settle_complete(Time now);
  void settle(const Key& key, Time now);

  ProcessSets& sets_;
  const bool owns_cache_;
  std::shared_ptr<RequestCache> cache_;
  Listener& listener_;
  std::uint64_t applied_ = 0;
  IdSet one_id_;  // room for what this rank submits
  CachedReadiness known_;
  ByKey<Readiness> others_;
  std::size_t messages_ = 0;  // of others_
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace rueda
