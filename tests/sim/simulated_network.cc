// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulated_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

namespace rueda {
namespace {

std::vector<TreeNode> tree_of(const ClusterShape& shape) {
  std::vector<std::string> hosts;
  hosts.reserve(shape.ranks);
  for (Rank rank = 0; rank < shape.ranks; ++rank) hosts.push_back(host_name(rank, shape));
  return tree::all_by_host(hosts, shape.radix);
}

}  // namespace

std::string host_name(Rank rank, const ClusterShape& shape) {
  return "host" + std::to_string(rank / shape.ranks_per_host);
}

Time time_of(double microseconds) {
  return Time(std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::micro>(microseconds)));
}

double microseconds_of(Time time) {
  return std::chrono::duration<double, std::micro>(time.time_since_epoch()).count();
}

SimulatedNetwork::SimulatedNetwork(const ClusterShape& shape) : shape_(shape) {
  const auto cache = std::make_shared<RequestCache>();
  nodes_.resize(shape.ranks);
  for (TreeNode& node : tree_of(shape)) {
    Negotiator::Settings settings;
    settings.choose_backend = [](const Plan&) { return std::uint8_t{0}; };
    settings.coordinator = {
        std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::micro>(shape.linger)),
        shape.fusion_threshold, shape.cache_capacity};
    settings.shared_cache = cache;
    const Rank rank = node.rank;
    nodes_[rank].negotiator = std::make_unique<Negotiator>(std::move(node), shape.ranks, std::move(settings));
  }
}

void SimulatedNetwork::push(double time, Event event) {
  std::size_t slot = events_.size();
  if (unused_.empty()) {
    events_.push_back(std::move(event));
  } else {
    slot = unused_.back();
    unused_.pop_back();
    events_[slot] = std::move(event);
  }
  queue_.push({time, next_order_++, slot});
}

void SimulatedNetwork::at(double time, Rank rank, std::function<void(Negotiator&, Time)> action) {
  push(std::max(time, now_), {rank, rank, {}, std::move(action)});
}

void SimulatedNetwork::lose(double time, Rank rank, double notice, std::mt19937& random) {
  at(time, rank, [this, rank](Negotiator&, Time) { nodes_[rank].silent = true; });
  const TreeNode node = tree_of(shape_)[rank];
  std::vector<Rank> neighbours = node.children;
  if (rank != 0) neighbours.push_back(node.parent);
  const Status status = Status::peer_lost(fmt::format(
      "rank {} (on {}) is lost: its process ended without shutdown(). The job cannot go on; start it "
      "again.",
      rank, host_name(rank, shape_)));
  std::uniform_real_distribution<double> delay(0, notice);
  for (const Rank neighbour : neighbours)
    at(time + delay(random), neighbour, [status](Negotiator& negotiator, Time) { negotiator.fail(status); });
}

void SimulatedNetwork::run(const Told& told, const Failed& failed) {
  while (!queue_.empty()) {
    const Due due = queue_.top();
    queue_.pop();
    Event event = std::move(events_[due.slot]);
    unused_.push_back(due.slot);
    now_ = due.time;
    handle(event, told, failed);
  }
}

void SimulatedNetwork::handle(Event& event, const Told& told, const Failed& failed) {
  Node& node = nodes_[event.to];
  if (node.silent) return;
  node.free_at = std::max(node.free_at, now_);
  if (event.bytes) {
    node.free_at += shape_.message;
    if (event.to == 0) traffic_.root_bytes += event.bytes->size();
    node.negotiator->receive(event.from, *event.bytes, time_of(node.free_at));
  } else if (event.action) {
    event.action(*node.negotiator, time_of(node.free_at));
  }
  if (!node.silent) collect(event.to, told, failed);
}

void SimulatedNetwork::collect(Rank rank, const Told& told, const Failed& failed) {
  Node& node = nodes_[rank];
  Negotiator& negotiator = *node.negotiator;
  negotiator.tick(time_of(node.free_at), true);
  for (const Plan& plan : negotiator.take_plans()) told(rank, plan, node.free_at);
  for (Envelope& envelope : negotiator.take_outgoing()) {
    node.free_at += shape_.message;
    ++traffic_.messages;
    if (rank == 0) traffic_.root_bytes += envelope.bytes.size();
    traffic_.largest_message = std::max<std::uint64_t>(traffic_.largest_message, envelope.bytes.size());
    if (!last_payload_ || *last_payload_ != envelope.bytes)
      last_payload_ = std::make_shared<const Bytes>(envelope.bytes);  // without room to grow
    push(node.free_at + shape_.hop, {rank, envelope.peer, last_payload_, {}});
  }
  if (!negotiator.failure().ok()) {
    node.silent = true;
    if (failed) failed(rank, negotiator.failure(), node.free_at);
    return;
  }
  const std::optional<Time> due = negotiator.due();
  if (!due || node.wakes_at > now_) return;
  node.wakes_at = std::max(microseconds_of(*due), now_ + 1);
  push(node.wakes_at, {rank, rank, {}, {}});
}

}  // namespace rueda
