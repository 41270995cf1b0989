// SPDX-License-Identifier: Apache-2.0
// The Negotiator's way down: Orders are numbered at rank 0, passed on, and take effect, in one order
// everywhere.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/control/negotiation/negotiator.h"

namespace rueda {

// Orders of the parent or, at rank 0, its own. Plans take effect one by one, since each may use the result of
// one before.
void Negotiator::take_orders(Orders orders, Bytes bytes, Time now) {
  send_to_children(std::move(bytes));
  for (Plan& plan : orders.plans) {
    if (!root_ && (plan.number != table_.applied() + 1 || !table_.resolve(plan)))
      return refuse_message(node_.parent,
                            fmt::format("Plan {} after Plan {}", plan.number, table_.applied()));
    const ProcessSets::View* view = sets_.find(plan.process_set);
    if (view != nullptr) plan.members = view->members;
    if (root_) root_->takes_part = plan.members && plan.members->contains(node_.rank);
    table_.apply(plan, now);
    if (!plan.status.ok()) continue;
    switch (plan.operation) {
      case Operation::join: table_.end_join(plan.process_set); break;
      case Operation::add_process_set:
        sets_.add(static_cast<ProcessSetId>(plan.result), plan.tensors.front().request->members);
        break;
      case Operation::remove_process_set:
        table_.remove_set(static_cast<ProcessSetId>(plan.result));
        stalls_.forget_set(static_cast<ProcessSetId>(plan.result));
        break;
      default: break;
    }
  }
  append(plans_, std::move(orders.plans));
  ended_ = orders.end;
  // A bit that a child has sent before it saw the end of an id is readable until the child has said that it
  // saw.
  std::uint64_t seen = table_.applied();
  for (std::uint64_t child : children_applied_) seen = std::min(seen, child);
  table_.forget(seen);
}

// At rank 0.
void Negotiator::issue(Orders orders, Time now) {
  root_->number(orders.plans, table_.applied());
  Bytes bytes = node_.children.empty() ? Bytes() : encode(orders);
  take_orders(std::move(orders), std::move(bytes), now);
}

void Negotiator::send_to_children(Bytes bytes) {
  if (node_.children.empty()) return;
  for (Rank child : node_.children) {
    if (child != node_.children.back()) outgoing_.push_back({child, bytes});
  }
  outgoing_.push_back({node_.children.back(), std::move(bytes)});
}

void Negotiator::abort(std::uint64_t plan, Status status) {
  RUEDA_ASSERT(plan <= table_.applied() && !status.ok());
  if (!aborts_.first(plan)) return;
  if (root_) return announce({plan, std::move(status)});
  outgoing_.push_back({node_.parent, encode(Abort{plan, std::move(status)})});
}

// The sender has started that Plan, or rank 0 has heard of it from one that has; so it is known here.
void Negotiator::take_abort(Rank from, Abort abort) {
  if (abort.plan > table_.applied()) return refuse_message(from, "the Abort of a Plan that does not exist");
  if (from != node_.parent) return this->abort(abort.plan, std::move(abort.status));
  aborts_.first(abort.plan);  // nobody below has to say it any more
  announce(std::move(abort));
}

// Sends the Abort down the tree. Orders of rank 0 arrive everywhere in one order: the first Abort counts.
void Negotiator::announce(Abort abort) {
  if (!node_.children.empty()) send_to_children(encode(abort));
  aborts_.add(std::move(abort));
}

}  // namespace rueda
