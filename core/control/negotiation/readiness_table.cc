// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/readiness_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rueda {

ReadinessTable::ReadinessTable(std::size_t contributors, ProcessSets& sets,
                               std::shared_ptr<RequestCache> shared_cache, Listener& listener)
    : sets_(sets),
      owns_cache_(!shared_cache),
      cache_(owns_cache_ ? std::make_shared<RequestCache>() : std::move(shared_cache)),
      listener_(listener),
      known_(contributors) {}

CacheId ReadinessTable::look_up(const SharedRequest& request, CacheId likely) {
  const CacheId id = cache_->find(request, applied_, likely);
  ++(id != 0 ? hits_ : misses_);
  return id;
}

void ReadinessTable::add_own(CacheId id, Time now) {
  one_id_.clear();
  one_id_.add(id);
  add(kSelf, one_id_, now);
}

void ReadinessTable::add(Contributor from, const IdSet& ids, Time now) {
  const bool fresh = known_.add(
      from, ids, now, [&](CacheId id) { return needed(id); },
      [&](CacheId id, Time since) {
        listener_.all_have(from, since, now);
        listener_.ready(id, cache_->request(id, applied_), now);
      },
      [&](CacheId id) { add_in_full(from, id, now); });
  if (!fresh) listener_.invalid(from, "one request twice");
}

std::uint16_t ReadinessTable::needed(CacheId id) const {
  const SharedRequest& request = cache_->request(id, applied_);
  if (!request || cache_->ended(id, applied_)) return CachedReadiness::kElsewhere;
  const ProcessSets::View* view = sets_.find(request->process_set);
  if (view == nullptr || !view->regular || !request->follows.empty() ||
      others_.contains(key_view_of(*request)))
    return CachedReadiness::kElsewhere;
  return static_cast<std::uint16_t>(view->contributors.count());
}

void ReadinessTable::add_in_full(Contributor from, CacheId id, Time now) {
  const SharedRequest request = cache_->request(id, applied_);
  if (!request || !request->follows.empty()) return listener_.invalid(from, "a cache id that is not in use");
  known_.ask_again(id);
  const ProcessSets::View* view = sets_.find(request->process_set);
  if (view != nullptr) add(from, {{request, sets_.members_below(*view, from)}}, now);
}

void ReadinessTable::add(Contributor from, std::vector<RequestOfRanks> requests, Time now) {
  const Request& first = *requests.front().request;
  const Key key = key_of(first);
  const ProcessSets::View* view = sets_.find(key.process_set);
  if (view == nullptr) return;  // a Plan has removed the set; the sender will hear of it
  if (!view->contributors.contains(from))
    return listener_.invalid(from, "a request of a set without members there");
  Readiness& readiness = readiness_of(first, now);
  if (readiness.contributors().contains(from)) return listener_.invalid(from, "one request twice");
  const bool joins = first.operation == Operation::join;
  for (RequestOfRanks& asked : requests) readiness.add(from, std::move(asked));
  if (joins) {
    // Operations that waited for the joined ranks are complete now, and are reported before the join.
    sets_.join(key.process_set, from);
    count_in_full(std::nullopt, now);
    settle_complete(now);
  }
  auto found = others_.find(key);
  if (found == others_.end() || !complete(key, found->second)) return;
  listener_.all_have(from, found->second.since(), now);
  settle(key, now);
}

// The Readiness of a key, which from now on is counted there only.
Readiness& ReadinessTable::readiness_of(const Request& request, Time now) {
  const Key key = key_of(request);
  auto [entry, fresh] = others_.try_emplace(key, now);
  Readiness& readiness = entry->second;
  if (!fresh) return readiness;
  if (request.operation == Operation::message) ++messages_;
  const CacheId id = cache_->current(key, applied_);
  if (id == 0) return readiness;
  const CachedReadiness::Open open = known_.take(id);
  known_.ask_again(id);
  if (open.contributors.empty()) return readiness;
  readiness = Readiness(open.since);
  const ProcessSets::View& view = *sets_.find(key.process_set);
  for (Rank i = 0; i < open.contributors.count(); ++i) {
    const Contributor from = open.contributors.at(i);
    readiness.add(from, {cache_->request(id, applied_), sets_.members_below(view, from)});
  }
  return readiness;
}

// From now on the ranks of a set that is not regular, or is `set`, have to be told apart.
void ReadinessTable::count_in_full(std::optional<ProcessSetId> set, Time now) {
  for (CacheId id : known_.open_ids()) {
    const SharedRequest request = cache_->request(id, applied_);
    if (request->process_set == set || !sets_.find(request->process_set)->regular)
      readiness_of(*request, now);
  }
  known_.ask_again();
}

bool ReadinessTable::complete(const Key& key, const Readiness& readiness) const {
  const ProcessSets::View& view = *sets_.find(key.process_set);
  return (view.contributors - readiness.contributors() - view.joined - view.gone).empty();
}

// Joins last: what they complete was reported before them.
void ReadinessTable::settle_complete(Time now) {
  for (const bool joins : {false, true}) {
    std::vector<Key> keys;
    for (const auto& [key, readiness] : others_) {
      const bool is_join = readiness.request()->operation == Operation::join;
      if (is_join == joins && complete(key, readiness)) keys.push_back(key);
    }
    std::ranges::sort(keys);
    for (const Key& key : keys) settle(key, now);
  }
}

void ReadinessTable::settle(const Key& key, Time now) {
  auto node = others_.extract(key);
  if (node.empty()) return;  // its set has been removed a moment ago
  if (node.mapped().request()->operation == Operation::message) --messages_;
  known_.ask_again(cache_->current(key, applied_));
  listener_.ready(node.mapped(), now);
}

void ReadinessTable::depart(const RankSet& ranks, Time now) {
  sets_.depart(ranks);
  count_in_full(std::nullopt, now);
  settle_complete(now);
}

// --- Plans take effect.

void ReadinessTable::apply(const Plan& plan, Time now) {
  for (CacheId id : plan.evicted) {
    const SharedRequest request = cache_->request(id, applied_);
    if (request && !known_.look(id).contributors.empty()) readiness_of(*request, now);
    known_.ask_again(id);
  }
  cache_->apply(plan);
  applied_ = plan.number;
}

void ReadinessTable::end_join(ProcessSetId set) {
  sets_.end_join(set);
  known_.ask_again();
}

void ReadinessTable::remove_set(ProcessSetId set) {
  sets_.remove(set);
  known_.ask_again();
  for (auto each = others_.begin(); each != others_.end();)
    each = each->first.process_set == set ? others_.erase(each) : std::next(each);
}

void ReadinessTable::forget(std::uint64_t plan) {
  if (owns_cache_) cache_->forget(plan);
}

bool ReadinessTable::gave(const IdSet& ids) const {
  return ids.empty() || ids.words().back().index * 64ull < cache_->end_of_ids();
}

const Readiness* ReadinessTable::any_of(ProcessSetId set) const {
  const auto found =
      std::ranges::find_if(others_, [&](const auto& each) { return each.first.process_set == set; });
  return found == others_.end() ? nullptr : &found->second;
}

}  // namespace rueda
