// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/planted_fault.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace rueda {

void PlantedFault::pass(ControlWorld& world, Rank from, Rank to, Bytes& bytes) {
  std::optional<Message> message = decode(bytes);
  if (auto* orders = std::get_if<Orders>(&*message)) {
    if (from == 0) learn(to, *orders);
    change(*orders);
    bytes = encode(*message);
  } else if (auto* report = std::get_if<Report>(&*message)) {
    if (to == 0) forge_reports(world, from, *report);
    change(*report);
    bytes = encode(*message);
  } else if (std::holds_alternative<Abort>(*message)) {
    change(*message, from);
    bytes = encode(*message);
  }
}

void PlantedFault::change(Message& message, Rank from) {
  if (planted_ || from != 0) return;
  if (kind_ == Kind::lost_abort) {
    message = Orders{};
  } else if (kind_ == Kind::changed_abort) {
    std::get<Abort>(message).status.message += '.';
  } else {
    return;
  }
  planted_ = true;
}

// As far as a message tells.
static bool of_all(const PlanTensor& tensor) {
  return tensor.in_full && tensor.request->process_set == kWorld;
}

void PlantedFault::learn(Rank to, const Orders& orders) {
  children_.insert(to);
  for (const Plan& plan : orders.plans) {
    if (plan.number <= learnt_) continue;  // heard on its way to another child
    learnt_ = plan.number;
    ended_.insert(ended_.end(), ending_.begin(), ending_.end());
    ending_ = plan.evicted;
    for (const PlanTensor& tensor : plan.tensors) {
      if (tensor.id != 0 && (open_.contains(tensor.id) || of_all(tensor))) open_[tensor.id] = {};
    }
    for (CacheId id : plan.evicted) open_.erase(id);
    if (kind_ != Kind::reused_id || planted_ || ended_.empty()) continue;
    const std::size_t index = random_() % plan.tensors.size();
    if (plan.tensors[index].id == 0) continue;
    replacements_[plan.number] = {index, ended_[random_() % ended_.size()]};
    planted_ = true;
  }
}

void PlantedFault::change(Plan& plan) const {
  if (const auto found = replacements_.find(plan.number); found != replacements_.end())
    plan.tensors[found->second.tensor].id = found->second.id;
}

void PlantedFault::change(Orders& orders) {
  for (Plan& plan : orders.plans) change(plan);
  if (planted_ || orders.plans.size() < 2 || random_() % 2 == 0) return;
  if (kind_ != Kind::swapped_plans && kind_ != Kind::swapped_contents) return;
  std::swap(orders.plans[0], orders.plans[1]);
  if (kind_ == Kind::swapped_contents) std::swap(orders.plans[0].number, orders.plans[1].number);
  planted_ = true;
}

void PlantedFault::change(Report& report) {
  if (planted_ || kind_ != Kind::dropped_bit || report.ids.empty() || random_() % 4 != 0) return;
  std::vector<CacheId> ids;
  report.ids.for_each([&](CacheId id) { ids.push_back(id); });
  ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(random_() % ids.size()));
  report.ids.clear();
  for (CacheId id : ids) report.ids.add(id);
  planted_ = true;
}

// The first child that reports an id is taken for all of them.
void PlantedFault::forge_reports(ControlWorld& world, Rank from, const Report& report) {
  if (kind_ != Kind::early_bit) return;
  report.ids.for_each([&](CacheId id) {
    const auto open = open_.find(id);
    if (open == open_.end()) return;
    open->second.insert(from);
    if (planted_ || open->second.size() > 1 || children_.size() < 2) return;
    IdSet forged;
    forged.add(id);
    for (Rank child : children_) {
      if (child != from) world.post(child, 0, encode(Report{0, forged, {}, {}, {}}));
    }
    planted_ = true;
  });
}

}  // namespace rueda
