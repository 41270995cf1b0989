// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/negotiator.h"

#include <fmt/format.h>

#include <algorithm>

namespace rueda {

Negotiator::Negotiator(TreeNode node, Rank size, Settings settings)
    : node_(std::move(node)),
      sets_(node_, size),
      full_join_(settings.full_join),
      owns_cache_(!settings.shared_cache),
      cache_(owns_cache_ ? std::make_shared<RequestCache>() : std::move(settings.shared_cache)),
      children_applied_(node_.children.size()),
      counter_(node_.children.size() + 1),
      stalls_(node_, std::move(settings.stalls)) {
  for (RankSet& members : settings.process_sets) sets_.add(next_set_++, std::move(members));
  if (node_.rank != 0) return;
  auto of_set = [this](FusionPlanner::ChooseBackend choose) -> FusionPlanner::ChooseBackend {
    if (!choose) return {};
    return [this, choose = std::move(choose)](Plan& plan) {
      plan.members = sets_.find(plan.process_set)->members;
      return choose(plan);
    };
  };
  const TuningParameters parameters{settings.caller.fusion_threshold, settings.caller.linger,
                                    settings.chunk_bytes};
  const FusionPlanner::ChooseBackend first = of_set(std::move(settings.choose_backend));
  const FusionPlanner::ChooseBackend second = of_set(std::move(settings.second_backend));
  coordinator_ = std::make_unique<Coordinator>(FusionPlanner(parameters, first, second), settings.caller);
  if (!settings.tuning) return;
  settings.tuning->defaults = parameters;
  tuner_ = std::make_unique<Autotuner>(*settings.tuning, first, second);
  coordinator_->tune(tuner_.get());
}

CacheId Negotiator::submit(const SharedRequest& request, Time now, CacheId likely) {
  const CacheId id = cache_->find(request, applied_, likely);
  ++(id != 0 ? hits_ : misses_);
  if (is_leaf()) {  // nobody to wait for
    if (id != 0) {
      report_.ids.add(id);
    } else {
      report_.tensors.push_back({{request, RankSet::of(node_.rank)}});
    }
  } else if (id != 0) {
    one_id_.clear();
    one_id_.add(id);
    add_bits(kSelf, one_id_, now);
  } else {
    add_wishes(kSelf, {{request, RankSet::of(node_.rank)}}, now);
  }
  return id;
}

void Negotiator::depart(Time now) { leave(RankSet::of(node_.rank), now); }

void Negotiator::rest() { (coordinator_ ? rested_ : report_.rested).add(RankSet::of(node_.rank)); }

void Negotiator::fail(Status status) {
  if (!failure_.ok()) return;
  failure_ = std::move(status);
  const Bytes bytes = encode(Failure{failure_});
  if (node_.rank != 0) outgoing_.push_back({node_.parent, bytes});
  for (Rank child : node_.children) outgoing_.push_back({child, bytes});
}

std::optional<Contributor> Negotiator::contributor_of(Rank rank) const {
  auto child = std::ranges::lower_bound(node_.children, rank);
  if (child == node_.children.end() || *child != rank) return std::nullopt;
  return static_cast<Contributor>(child - node_.children.begin() + 1);
}

Rank Negotiator::rank_of(Contributor contributor) const {
  return contributor == kSelf ? node_.rank : node_.children[contributor - 1];
}

void Negotiator::refuse_message(Rank from, std::string_view what) {
  fail(Status::backend_error(
      fmt::format("rank {} got {} from rank {}. Are all ranks of one build?", node_.rank, what, from)));
}

void Negotiator::receive(Rank from, ConstBytes bytes, Time now) {
  std::optional<Message> message = decode(bytes);
  if (!message) return refuse_message(from, fmt::format("{} bytes that are no message", bytes.size()));
  if (auto* failure = std::get_if<Failure>(&*message)) return fail(std::move(failure->status));
  if (node_.rank != 0 && from == node_.parent) {
    if (auto* orders = std::get_if<Orders>(&*message)) return take_orders(std::move(*orders), bytes, now);
    if (auto* abort = std::get_if<Abort>(&*message)) return take_abort(from, std::move(*abort));
    if (auto* inquiry = std::get_if<Inquiry>(&*message)) return stalls_.take_message(from, *inquiry, now);
  }
  if (const std::optional<Contributor> child = contributor_of(from)) {
    if (auto* report = std::get_if<Report>(&*message)) return take_message(*child, std::move(*report), now);
    if (auto* abort = std::get_if<Abort>(&*message)) return take_abort(from, std::move(*abort));
    if (auto* stall = std::get_if<Stall>(&*message))
      return stalls_.take_message(from, std::move(*stall), now);
    if (auto* answer = std::get_if<Answer>(&*message))
      return stalls_.take_message(from, std::move(*answer), now);
  }
  refuse_message(from, fmt::format("a message of kind {} that is not due from there", message->index()));
}

void Negotiator::take_message(Contributor from, Report report, Time now) {
  const Rank rank = rank_of(from);
  if (report.applied > applied_) return refuse_message(rank, "news of a Plan that does not exist");
  if (!report.ids.empty() && report.ids.words().back().index * 64ull >= cache_->end_of_ids())
    return refuse_message(rank, "a cache id that was never given");
  children_applied_[from - 1] = report.applied;
  leaving_ = std::move(report.departed);
  add_bits(from, report.ids, now);
  for (std::vector<Wish>& wishes : report.tensors) add_wishes(from, std::move(wishes), now);
  // Last: once rank 0 knows of all departures, no report can be on its way any more.
  if (!leaving_.empty()) leave(std::exchange(leaving_, {}), now);
  (coordinator_ ? rested_ : report_.rested).add(report.rested);
}

void Negotiator::tick(Time now, bool works_run) {
  if (!works_run && takes_part_) next_area_ = 0;
  if (ended_ || !failure_.ok()) return;
  inspect(now);
  if (!coordinator_) return;
  const bool all_departed = sets_.departed() == node_.subtree;
  Orders orders{coordinator_->call(now, open() > 0), false};
  orders.end = all_departed && rested_ == node_.subtree && open() == 0 && coordinator_->idle();
  if (orders.end && tuner() != nullptr) tuner()->end();
  if (!orders.plans.empty() || orders.end) issue(std::move(orders), now);
  if (std::optional<Status> verdict = stalls_.verdict(now)) fail(std::move(*verdict));
}

// Looks a few times in each period at what is incomplete.
void Negotiator::inspect(Time now) {
  stalls_.tick(now);
  if (!stalls_.on() || open() == 0 || now - inspected_ < std::chrono::milliseconds(100)) return;
  inspected_ = now;
  for (CacheId id : counter_.open_ids()) {
    const Time since = counter_.look(id).since;
    if (stalls_.overdue(since, now)) stalls_.notice(cache_->request(id, applied_), since, now);
  }
  for (const auto& [key, tally] : tallies_) {
    if (stalls_.overdue(tally.since(), now)) stalls_.notice(tally.request(), tally.since(), now);
  }
}

void Negotiator::notice_unmoved(const SharedRequest& request, std::uint64_t plan, Time since, Time now) {
  if (stalls_.overdue(since, now)) stalls_.notice(request, plan, since, now);
}

std::optional<Time> Negotiator::due() const {
  std::optional<Time> next = coordinator_ ? coordinator_->due() : std::nullopt;
  if (const std::optional<Time> stall = stalls_.due()) next = next ? std::min(*next, *stall) : stall;
  return next;
}

std::vector<Envelope> Negotiator::take_outgoing() {
  constexpr std::uint64_t kTellEvery = 1024;  // Plans: so that the parent can forget
  if (!report_.empty() || (node_.rank != 0 && applied_ - told_ >= kTellEvery)) {
    told_ = report_.applied = applied_;
    outgoing_.push_back({node_.parent, encode(std::exchange(report_, {}))});
  }
  std::ranges::move(stalls_.take_outgoing(), std::back_inserter(outgoing_));
  return std::exchange(outgoing_, {});
}

// --- Reports come in.

void Negotiator::add_bits(Contributor from, const IdSet& ids, Time now) {
  const bool fresh = counter_.add(
      from, ids, now, [&](CacheId id) { return needed(id); },
      [&](CacheId id, Time since) {
        note_last(from, since, now);
        settle_id(id, now);
      },
      [&](CacheId id) { add_bit_elsewhere(from, id, now); });
  if (!fresh) refuse_message(rank_of(from), "one request twice");
}

std::uint16_t Negotiator::needed(CacheId id) const {
  const SharedRequest& request = cache_->request(id, applied_);
  if (!request || cache_->ended(id, applied_)) return CachedReadiness::kElsewhere;
  const ProcessSets::View* view = sets_.find(request->process_set);
  if (view == nullptr || !view->regular || !request->follows.empty() ||
      tallies_.contains(key_view_of(*request)))
    return CachedReadiness::kElsewhere;
  return static_cast<std::uint16_t>(view->contributors.count());
}

void Negotiator::add_bit_elsewhere(Contributor from, CacheId id, Time now) {
  const SharedRequest request = cache_->request(id, applied_);
  if (!request || !request->follows.empty())
    return refuse_message(rank_of(from), "a cache id that is not in use");
  counter_.ask_again(id);
  const ProcessSets::View* view = sets_.find(request->process_set);
  if (view != nullptr) add_wishes(from, {{request, sets_.members_below(*view, from)}}, now);
}

void Negotiator::add_wishes(Contributor from, std::vector<Wish> wishes, Time now) {
  const Request& first = *wishes.front().request;
  const Key key = key_of(first);
  const ProcessSets::View* view = sets_.find(key.process_set);
  if (view == nullptr) return;  // a Plan has removed the set; the sender will hear of it
  if (!view->contributors.contains(from))
    return refuse_message(rank_of(from), "a request of a set without members there");
  Readiness& tally = tally_of(first, now);
  if (tally.contributors().contains(from)) return refuse_message(rank_of(from), "one request twice");
  const bool joins = first.operation == Operation::join;
  for (Wish& wish : wishes) tally.add(from, std::move(wish));
  if (joins) {
    // What waits for the joined is complete now, and is reported before the join.
    sets_.join(key.process_set, from);
    count_in_tallies(std::nullopt, now);
    settle_complete(now);
  }
  auto found = tallies_.find(key);
  if (found == tallies_.end() || !complete(key, found->second)) return;
  note_last(from, found->second.since(), now);
  settle(key, now);
}

// At rank 0: `from` came last, so all waited for it.
void Negotiator::note_last(Contributor from, Time since, Time now) {
  if (coordinator_ && now > since) last_ones_.push_back({rank_of(from), now - since});
}

// The tally of a key, which from now on is counted there only.
Readiness& Negotiator::tally_of(const Request& request, Time now) {
  const Key key = key_of(request);
  auto [place, fresh] = tallies_.try_emplace(key, now);
  Readiness& tally = place->second;
  if (!fresh) return tally;
  const CacheId id = cache_->current(key, applied_);
  if (id == 0) return tally;
  const CachedReadiness::Open open = counter_.take(id);
  counter_.ask_again(id);
  if (open.contributors.empty()) return tally;
  tally = Readiness(open.since);
  const ProcessSets::View& view = *sets_.find(key.process_set);
  for (Rank i = 0; i < open.contributors.count(); ++i) {
    const Contributor from = open.contributors.at(i);
    tally.add(from, {cache_->request(id, applied_), sets_.members_below(view, from)});
  }
  return tally;
}

// From now on the ranks of a set that is not regular, or is `set`, have to be told apart.
void Negotiator::count_in_tallies(std::optional<ProcessSetId> set, Time now) {
  for (CacheId id : counter_.open_ids()) {
    const SharedRequest request = cache_->request(id, applied_);
    if (request->process_set == set || !sets_.find(request->process_set)->regular) tally_of(*request, now);
  }
  counter_.ask_again();
}

void Negotiator::leave(const RankSet& ranks, Time now) {
  sets_.depart(ranks);
  if (node_.rank != 0) report_.departed.add(ranks);
  count_in_tallies(std::nullopt, now);
  settle_complete(now);
}

// --- Something is complete here.

bool Negotiator::complete(const Key& key, const Readiness& tally) const {
  const ProcessSets::View& view = *sets_.find(key.process_set);
  return (view.contributors - tally.contributors() - view.joined - view.gone).empty();
}

// Joins last: what they complete was reported before them.
void Negotiator::settle_complete(Time now) {
  for (const bool joins : {false, true}) {
    std::vector<Key> keys;
    for (const auto& [key, tally] : tallies_) {
      const bool is_join = tally.request()->operation == Operation::join;
      if (is_join == joins && complete(key, tally)) keys.push_back(key);
    }
    std::ranges::sort(keys);
    for (const Key& key : keys) settle(key, now);
  }
}

void Negotiator::settle_id(CacheId id, Time now) {
  stalls_.forget(*cache_->request(id, applied_));
  if (coordinator_) {
    coordinator_->ready(cache_->request(id, applied_), {}, now);
  } else {
    report_.ids.add(id);
  }
}

void Negotiator::settle(const Key& key, Time now) {
  auto node = tallies_.extract(key);
  if (node.empty()) return;  // its set has been removed a moment ago
  Readiness& tally = node.mapped();
  stalls_.forget(key);
  counter_.ask_again(cache_->current(key, applied_));
  if (coordinator_) {
    conclude(tally, now);
  } else {
    report_.tensors.push_back(tally.take_wishes());
  }
}

// At rank 0: everybody who could report this has done so.
void Negotiator::conclude(const Readiness& tally, Time now) {
  const ProcessSets::View& view = *sets_.find(tally.request()->process_set);
  if (Status status = objection(tally, view); !status.ok()) {
    coordinator_->refuse(tally.request(), std::move(status));
  } else if (traits(tally.request()->operation).moves_data) {
    // Whoever has joined takes part, but is not there to say what it has counted.
    coordinator_->ready(tally.request(), *view.members - tally.reported(), now);
  } else {
    decide(tally.request(), now);
  }
}

Status Negotiator::objection(const Readiness& tally, const ProcessSets::View& view) const {
  const Request& first = *tally.request();
  const RankSet missing = *view.members - tally.reported();
  RankSet departed = sets_.departed();
  departed.add(leaving_);
  departed = missing & departed;
  if (!departed.empty()) {
    return Status::shut_down(fmt::format(
        "{}: {} shut down without it, while {} asked for it. Submit it on every rank, or on none.",
        title_of_all(first), to_string(departed), to_string(tally.reported())));
  }
  if (!tally.agreed()) return tally.mismatch();
  if (missing.empty()) return {};
  Status status = objection_without(missing, first);
  for (std::size_t i = 0; i < first.others.size() && status.ok(); ++i)
    status = objection_without(missing, first.others[i]);
  return status;
}

// Whether `request` can be carried out for ranks that have joined, too.
Status Negotiator::objection_without(const RankSet& joined, const Request& request) const {
  const std::string who = to_string(joined) + (joined.count() == 1 ? " has" : " have");
  const bool may_join = request.operation == Operation::allreduce ||
                        request.operation == Operation::barrier || request.operation == Operation::join;
  const bool full = full_join_ && !(traits(request.operation).has_root && joined.contains(request.root));
  if (!may_join && !full) {
    return Status::invalid_argument(fmt::format(
        "{}: {} joined and will not take part. Between a rank's join() and everybody's, only allreduce and "
        "barrier are possible{}.",
        title(request), who,
        full_join_ ? ", and other operations but a broadcast from there" : " (more with RUEDA_FULL_JOIN=1)"));
  }
  const bool zeros = request.reduce_op == ReduceOp::sum || request.reduce_op == ReduceOp::average ||
                     request.reduce_op == ReduceOp::adasum;
  if (!zeros && request.prescale_factor != 1.0) {
    return Status::invalid_argument(
        fmt::format("{}: {} joined, and what stands in for it would be scaled by the prescale factor {}, "
                    "which changes a {}. "
                    "Scale before or after the operation.",
                    title(request), who, request.prescale_factor, to_string(request.reduce_op)));
  }
  return {};
}

// What moves no data happens as soon as all want it.
void Negotiator::decide(const SharedRequest& request, Time now) {
  std::int64_t result = request->root;
  if (request->operation == Operation::add_process_set) {
    if (const ProcessSetId* same = sets_.with_members(request->members)) {
      return coordinator_->refuse(request, Status::invalid_argument(fmt::format(
                                               "{}: process set {} has the same members, {}. Use that one.",
                                               title(*request), *same, to_string(request->members))));
    }
    result = next_set_++;
  } else if (request->operation == Operation::remove_process_set) {
    const auto set = static_cast<ProcessSetId>(request->root);
    if (sets_.find(set) == nullptr) {
      return coordinator_->refuse(
          request, Status::invalid_argument(
                       fmt::format("{}: process set {} has been removed before.", title(*request), set)));
    }
    count_in_tallies(set, now);
    for (const auto& [key, tally] : tallies_) {
      if (key.process_set != set) continue;
      return coordinator_->refuse(
          request, Status::invalid_argument(
                       fmt::format("{}: {} is in flight, submitted by {}. Wait for it first.",
                                   title(*request), title(*tally.request()), to_string(tally.reported()))));
    }
  }
  Orders orders{coordinator_->call(now, false), false};  // what was complete before comes before
  orders.plans.push_back(coordinator_->decide(request, result));
  issue(std::move(orders), now);
}

}  // namespace rueda
