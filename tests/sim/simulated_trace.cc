// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulated_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace rueda {
namespace {

constexpr std::size_t kFlushBytes = 1 << 20;

void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message);
}

TraceEvent event_at(Time now, TraceEvent::Kind kind, std::uint64_t ticket) {
  TraceEvent event;
  event.kind = kind;
  event.time_ns = std::chrono::nanoseconds(now.time_since_epoch()).count();
  event.ticket = ticket;
  return event;
}

}  // namespace

SimulatedTrace::SimulatedTrace(const std::string& path, const ClusterShape& shape, Rank shown) {
  must(file_.open(path));
  shown = std::min(shown, shape.ranks);
  lines_ = fmt::format(
      ",\n"
      R"({{"name":"rueda_merged_timeline","ph":"M","pid":0,"tid":0,"args":{{"ranks":{}}}}})",
      shown);
  for (Rank rank = 0; rank < shown; ++rank) {
    TraceIdentity identity;
    identity.rank = rank;
    identity.size = shape.ranks;
    identity.host = host_name(rank, shape);
    ranks_.push_back({TraceJson(identity), {}});
    lines_ += ranks_.back().text.begin(1);
  }
  flush(0);
}

void SimulatedTrace::submitted(Rank rank, Time now, const std::vector<SharedRequest>& requests) {
  if (!shown(rank)) return;
  for (const SharedRequest& request : requests) {
    TraceEvent event = event_at(now, TraceEvent::Kind::submitted, next_ticket_++);
    event.operation = request->operation;
    event.bytes = static_cast<std::uint64_t>(bytes_of(*request));
    event.set_name(request->name);
    ranks_[rank].tickets[request->name] = event.ticket;
    add(ranks_[rank], event);
  }
  flush(kFlushBytes);
}

void SimulatedTrace::told(Rank rank, Time now, const Plan& plan) {
  if (!shown(rank)) return;
  Row& row = ranks_[rank];
  for (const PlanTensor& tensor : plan.tensors) {
    const auto flight = row.tickets.extract(tensor.request->name);
    if (flight.empty()) continue;
    TraceEvent event = event_at(now, TraceEvent::Kind::planned, flight.mapped());
    event.plan = plan.number;
    add(row, event);
    event.kind = TraceEvent::Kind::ended;
    event.ok = plan.status.ok();
    add(row, event);
  }
  flush(kFlushBytes);
}

void SimulatedTrace::failed(Rank rank, Time now) {
  if (!shown(rank)) return;
  Row& row = ranks_[rank];
  for (const auto& [name, ticket] : row.tickets) {
    TraceEvent event = event_at(now, TraceEvent::Kind::ended, ticket);
    event.ok = false;
    add(row, event);
  }
  row.tickets.clear();
  flush(kFlushBytes);
}

void SimulatedTrace::end() {
  for (const Row& row : ranks_) lines_ += row.text.end(0);
  flush(0);
}

void SimulatedTrace::flush(std::size_t least) {
  if (lines_.size() < least) return;
  must(file_.append(lines_));
  lines_.clear();
}

}  // namespace rueda
