// SPDX-License-Identifier: Apache-2.0
#include "core/engine/job_start.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/log.h"
#include "core/engine/clock_exchange.h"
#include "rueda/version.h"

namespace rueda {
namespace {

using std::chrono::microseconds;

Introduction introduce(const RuntimeComponents& parts) {
  Introduction introduction{parts.rank, kVersion, parts.host, getpid(), {}, parts.card, "", parts.job};
  for (const Setting& setting : settings()) {
    introduction.settings.push_back(fmt::format("{}={}", setting.name, setting.show(parts.config)));
  }
  return introduction;
}

// Rank 0's answer to the introductions of all ranks. Others wait a little longer than rank 0, so that its
// words, which name the missing, reach them first.
Welcome bootstrap(RuntimeComponents& parts, RuntimeState& shared, double patience) {
  Bootstrap exchange(introduce(parts), parts.size, parts.process_sets);
  const Time expires = clock_now() + from_seconds(patience);
  while (true) {
    for (Envelope& envelope : exchange.take_outgoing())
      parts.transport->send(envelope.peer, std::move(envelope.bytes));
    if (exchange.welcome()) break;
    if (shared.unwanted.load()) {
      Welcome left;
      left.status = Status::shut_down("init: this rank has left before the others were there.");
      return left;
    }
    shared.heartbeat.fetch_add(1, std::memory_order_relaxed);
    if (std::optional<Envelope> envelope = parts.transport->receive()) {
      exchange.receive(envelope->peer, envelope->bytes);
    } else if (clock_now() > expires) {
      exchange.expire(patience);
    } else {
      shared.bell->sleep(shared.bell->listen(), microseconds(200));
    }
  }
  for (const std::string& line : exchange.differing_settings())
    log(LogLevel::warning, "settings differ: {}", line);
  return *exchange.welcome();
}

void begin_observation(StartedJob& job, RuntimeComponents& parts, RuntimeState& shared, Time expires) {
  const std::optional<Rank> parent = parts.rank == 0 ? std::nullopt : std::optional(job.node.parent);
  ClockExchange exchange = exchange_clocks(parent, job.node.children, parts.transport.get(), shared, expires);
  job.early = std::move(exchange.early);
  job.welcome.status = std::move(exchange.status);
  const JobClock& clock = exchange.clock;
  shared.observer.begin(
      {parts.rank, parts.size, parts.host, getpid(), clock.offset_ns, clock.origin_ns, clock.epoch_us},
      parts.config.fusion_threshold);
}

}  // namespace

std::string StartedJob::place_of(Rank rank) const {
  return fmt::format("process {} on {}", welcome.process_ids.at(rank), welcome.hosts.at(rank));
}

StartedJob start_job(RuntimeComponents& parts, RuntimeState& shared) {
  shared.observer.doing("waiting for the other ranks to start");
  const double patience = parts.config.start_timeout + (parts.rank == 0 ? 0.0 : 3.0);
  StartedJob job{bootstrap(parts, shared, patience), {}, {}};
  if (!job.welcome.status.ok()) return job;
  const auto alive = [&shared] { shared.heartbeat.fetch_add(1, std::memory_order_relaxed); };
  if (parts.meet) parts.meet(job.welcome, alive);
  std::ranges::find_if(parts.backends, [&](auto& each) { return each->meet(job.welcome.hosts, alive); });
  job.node = tree::by_host(parts.rank, job.welcome.hosts);
  begin_observation(job, parts, shared, clock_now() + from_seconds(patience));
  return job;
}

}  // namespace rueda
