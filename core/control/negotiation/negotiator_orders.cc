// SPDX-License-Identifier: Apache-2.0
// The Negotiator's way down: Orders are numbered at rank 0, passed on, and take effect, in one order
// everywhere.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/control/negotiation/negotiator.h"

namespace rueda {

void Negotiator::take_orders(Orders orders, ConstBytes bytes, Time now) {
  for (Rank child : node_.children) outgoing_.push_back({child, Bytes(bytes.begin(), bytes.end())});
  for (Plan& plan : orders.plans) {
    if (plan.number != applied_ + 1 || !cache_->resolve(plan, applied_))
      return refuse_message(node_.parent, fmt::format("Plan {} after Plan {}", plan.number, applied_));
    apply(plan, now);
  }
  append(plans_, std::move(orders.plans));
  ended_ = orders.end;
  forget_ended_ids();
}

// At rank 0.
void Negotiator::issue(Orders orders, Time now) {
  std::uint64_t number = applied_;
  for (Plan& plan : orders.plans) {
    plan.number = ++number;
    plan.area = next_area_;
    next_area_ = static_cast<std::uint8_t>((next_area_ + 1) % kAreas);
  }
  if (!node_.children.empty()) {
    Bytes bytes = encode(orders);
    for (Rank child : node_.children) {
      if (child != node_.children.back()) outgoing_.push_back({child, bytes});
    }
    outgoing_.push_back({node_.children.back(), std::move(bytes)});
  }
  for (Plan& plan : orders.plans) {
    apply(plan, now);
    takes_part_ = plan.members && plan.members->contains(node_.rank);
  }
  append(plans_, std::move(orders.plans));
  ended_ = orders.end;
  forget_ended_ids();
}

// What a Plan means for agreement itself. Its number is the clock of the cache: everything before it is
// looked up as it was.
void Negotiator::apply(Plan& plan, Time now) {
  const ProcessSets::View* view = sets_.find(plan.process_set);
  if (view != nullptr) plan.members = view->members;
  for (CacheId id : plan.evicted) {
    const SharedRequest request = cache_->request(id, applied_);
    if (request && !counter_.look(id).contributors.empty()) tally_of(*request, now);
    counter_.ask_again(id);
  }
  cache_->apply(plan);
  applied_ = plan.number;
  if (!plan.status.ok()) return;
  const Request& request = *plan.tensors.front().request;
  switch (plan.operation) {
    case Operation::join:
      sets_.end_join(plan.process_set);
      counter_.ask_again();
      break;
    case Operation::add_process_set:
      sets_.add(static_cast<ProcessSetId>(plan.result), request.members);
      break;
    case Operation::remove_process_set: remove_set(static_cast<ProcessSetId>(plan.result)); break;
    default: break;
  }
}

void Negotiator::remove_set(ProcessSetId set) {
  sets_.remove(set);
  stalls_.forget_set(set);
  counter_.ask_again();
  for (auto tally = tallies_.begin(); tally != tallies_.end();) {
    const bool gone = tally->first.process_set == set;
    tally = gone ? tallies_.erase(tally) : std::next(tally);
  }
}

void Negotiator::abort(std::uint64_t plan, Status status) {
  RUEDA_ASSERT(plan <= applied_ && !status.ok());
  if (!first_abort(plan)) return;
  if (coordinator_) return announce({plan, std::move(status)});
  outgoing_.push_back({node_.parent, encode(Abort{plan, std::move(status)})});
}

// All ranks may fail in the same Plan: one voice of each subtree is enough. Of Plans older than the last that
// failed, an Abort may be told twice, which nobody minds.
bool Negotiator::first_abort(std::uint64_t plan) {
  constexpr std::size_t kRemembered = 1024;
  const bool first = known_aborts_.insert(plan).second;
  if (known_aborts_.size() > kRemembered) known_aborts_.erase(known_aborts_.begin());
  return first;
}

// The sender has started that Plan, or rank 0 has heard of it from one that has; so it is known here.
void Negotiator::take_abort(Rank from, Abort abort) {
  if (abort.plan > applied_) return refuse_message(from, "the Abort of a Plan that does not exist");
  if (from != node_.parent) return this->abort(abort.plan, std::move(abort.status));
  first_abort(abort.plan);  // nobody below has to say it any more
  announce(std::move(abort));
}

// Down the tree from here. What comes from rank 0 comes everywhere in the same order: the first counts.
void Negotiator::announce(Abort abort) {
  if (!node_.children.empty()) {
    const Bytes bytes = encode(abort);
    for (Rank child : node_.children) outgoing_.push_back({child, bytes});
  }
  aborts_.push_back(std::move(abort));
}

// A bit that a child has sent before it saw the end of an id is readable until the child has said that it
// saw.
void Negotiator::forget_ended_ids() {
  if (!owns_cache_) return;
  std::uint64_t seen = applied_;
  for (std::uint64_t child : children_applied_) seen = std::min(seen, child);
  cache_->forget(seen);
}

}  // namespace rueda
