// SPDX-License-Identifier: Apache-2.0
#include "tests/support/worlds/control_world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace rueda {

Request request_for(const std::string& name, Shape shape) {
  Request result;
  result.name = name;
  result.shape = std::move(shape);
  return result;
}

ControlWorld::ControlWorld(Rank size, std::uint32_t seed, Options options)
    : random_(seed), plans_(size), aborts_(size), together_(options.together), silent_(size) {
  std::vector<std::string> hosts = std::move(options.hosts);
  for (auto rank = static_cast<Rank>(hosts.size()); rank < size; ++rank)
    hosts.push_back(fmt::format("host{}", rank / options.ranks_per_host));
  last_ids_.resize(static_cast<std::size_t>(size));
  own_state = [](Rank, const Asked&) { return StallInspector::OwnState{}; };
  for (TreeNode& node : tree::all_by_host(hosts, options.radix)) {
    const Rank rank = node.rank;
    Negotiator::Settings settings;
    settings.choose_backend = [](const Plan&) { return std::uint8_t{0}; };
    settings.chunk_bytes = 1024;
    settings.coordinator = {options.linger, options.fusion_threshold, options.cache_least};
    settings.full_join = options.full_join;
    settings.stalls = {options.stall_report, options.stall_fail,
                       [this, rank](const Asked& asked) { return own_state(rank, asked); },
                       [](Rank other) { return fmt::format("process {} on somewhere", 100 + other); }};
    nodes_.push_back(std::make_unique<Negotiator>(std::move(node), size, std::move(settings)));
  }
}

void ControlWorld::submit(Rank rank, Request request) {
  CacheId& id = last_ids_[rank][key_of(request)];
  id = nodes_[rank]->submit(std::make_shared<const Request>(std::move(request)), now, id);
}

void ControlWorld::submit_everywhere(const Request& request) {
  for (Rank rank = 0; rank < size(); ++rank) submit(rank, request);
}

void ControlWorld::depart(Rank rank) {
  nodes_[rank]->depart(now);
  nodes_[rank]->rest();
}

void ControlWorld::post(Rank from, Rank to, Bytes bytes) {
  largest_ = std::max(largest_, bytes.size());
  ++messages_;
  auto& queue = under_way_[{from, to}];
  if (queue.empty()) ready_.emplace_back(from, to);
  queue.push_back(std::move(bytes));
}

void ControlWorld::collect(Rank rank) {
  if (silent_[rank]) return;
  Negotiator& node = *nodes_[rank];
  node.tick(now, works_run);
  for (Envelope& envelope : node.take_outgoing()) {
    if (sent) sent(rank, envelope.peer, envelope.bytes);
    post(rank, envelope.peer, std::move(envelope.bytes));
  }
  for (Plan& plan : node.take_plans()) {
    if (arrived) arrived(rank, plan);
    plans_[rank].push_back(std::move(plan));
  }
  for (const Abort& abort : node.take_aborts()) {
    if (aborted) aborted(rank, abort);
    aborts_[rank].push_back(abort);
  }
  std::ranges::move(node.take_reports(), std::back_inserter(reports_));
  if (!node.failure().ok()) silent_[rank] = true;
}

bool ControlWorld::deliver_one() {
  if (ready_.empty()) {
    const std::vector<Rank> unasked = std::exchange(unasked_, {});
    for (Rank rank : unasked) collect(rank);
    return !unasked.empty();
  }
  std::swap(ready_[random_() % ready_.size()], ready_.back());
  const auto [from, to] = ready_.back();
  auto& queue = under_way_[{from, to}];
  const Bytes bytes = std::move(queue.front());
  queue.pop_front();
  if (queue.empty()) ready_.pop_back();
  if (silent_[to] || nodes_[to]->ended()) return true;
  nodes_[to]->receive(from, bytes, now);
  if (together_ == 1 || random_() % together_ == 0) {
    collect(to);
  } else {
    unasked_.push_back(to);
  }
  return true;
}

void ControlWorld::settle() {
  for (Rank rank = 0; rank < size(); ++rank) collect(rank);
  while (deliver_one()) continue;
}

void ControlWorld::settle_for(Duration time, Duration step) {
  for (const Time end = now + time; now < end; now += step) settle();
  settle();
}

void ControlWorld::expect_same_plans() const {
  for (std::size_t i = 0; i < plans_.front().size(); ++i) ASSERT_EQ(plans_.front()[i].number, i + 1);
  for (Rank rank = 0; rank < size(); ++rank) {
    ASSERT_TRUE(plans_[rank] == plans_.front()) << "rank " << rank << " has other Plans than rank 0";
  }
}

std::vector<std::string> names_of(const std::vector<Plan>& plans) {
  std::vector<std::string> names;
  for (const Plan& plan : plans) {
    for (const PlanTensor& tensor : plan.tensors) names.push_back(tensor.name());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace rueda
