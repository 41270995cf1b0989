// SPDX-License-Identifier: Apache-2.0
#include "core/engine/job_start.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/base/log.h"
#include "core/control/bootstrap/ranks_of_job.h"
#include "core/engine/clock_exchange.h"
#include "core/engine/lost_peers.h"
#include "core/engine/submissions/work_failure.h"
#include "core/observe/training/training_record.h"
#include "rueda/version.h"

namespace rueda {
namespace {

using std::chrono::microseconds;

struct StartSuperseded {};

Introduction introduce(const RuntimeComponents& components) {
  Introduction introduction{components.rank,      kVersion, components.host, getpid(), {},
                            components.peer_info, "",       components.job,  "",       components.local_rank};
  introduction.steps = TrainingRecord::of_process().steps();
  if (components.transport) introduction.relay = components.transport->relay();
  for (const Setting& setting : settings()) {
    introduction.settings.push_back(fmt::format("{}={}", setting.name, setting.show(components.config)));
  }
  return introduction;
}

// Why others may not have come; empty where nothing is known.
std::string obstacle_of(const RuntimeComponents& components) {
  std::string obstacle = components.transport->obstacle();
  if (components.started_as.empty() || components.elastic) return obstacle;
  return condition_of_start(components.started_as) + (obstacle.empty() ? "" : "; " + obstacle);
}

// The launcher knows best, so its ranks come before those whose connections have ended.
std::vector<Rank> newly_lost(LostPeers& lost, Transport& transport) {
  const Time now = clock_now();
  lost.look(now);
  lost.add(transport.lost(now));
  return lost.take_unreported();
}

bool is_superseded(const RuntimeComponents& components) {
  return components.superseded && components.superseded();
}

Status superseded_start() {
  return Status::peer_lost("init: other ranks make up the job by now. Call init() again.");
}

// Rank 0's answer to the introductions of all ranks. Others wait a little longer than rank 0, so that its
// words, which name the missing, reach them first.
Welcome bootstrap(RuntimeComponents& components, RuntimeState& shared, LostPeers& lost, double timeout) {
  Bootstrap exchange(
      introduce(components), components.size, components.process_sets,
      components.transport && components.transport->only_reaches_root() ? components.size : tree::kRadix);
  Time expires = clock_now() + from_seconds(timeout);
  while (true) {
    for (Envelope& envelope : exchange.take_outgoing())
      components.transport->send(envelope.peer, std::move(envelope.bytes));
    if (exchange.welcome()) break;
    if (shared.unwanted.load()) {
      Welcome left;
      left.status = Status::shut_down("init: this rank has left before the others were there.");
      return left;
    }
    if (is_superseded(components)) {
      Welcome other;
      other.status = superseded_start();
      return other;
    }
    shared.heartbeat.fetch_add(1, std::memory_order_relaxed);
    const std::uint32_t rings = shared.doorbell->listen();  // before the look at what has come
    if (const std::optional<Time> since = components.transport->known_to_root_since())
      expires = std::max(expires, *since + from_seconds(timeout));
    if (std::optional<Envelope> envelope = components.transport->receive()) {
      exchange.receive(envelope->peer, envelope->bytes);
      if (const std::optional<Referral> referral = exchange.take_referral())
        components.transport->take_welcome_from(referral->to, referral->relay);
    } else if (const std::vector<Rank> gone = newly_lost(lost, *components.transport); !gone.empty()) {
      exchange.lose(gone.front(), lost.told_end_of(gone.front()));
    } else if (clock_now() > expires) {
      exchange.expire(timeout, obstacle_of(components));
    } else {
      wait_for_message(*components.transport, *shared.doorbell, rings);
    }
  }
  shared.doorbell->stay_awake();
  // Nobody else moves what is queued until the engine runs.
  while (components.transport && !components.transport->drain() && clock_now() < expires &&
         !is_superseded(components)) {
    shared.heartbeat.fetch_add(1, std::memory_order_relaxed);
    std::this_thread::sleep_for(microseconds(100));
  }
  for (const std::string& line : exchange.differing_settings())
    log(LogLevel::warning, "settings differ: {}", line);
  return *exchange.welcome();
}

void begin_observation(StartedJob& job, RuntimeComponents& components, RuntimeState& shared, LostPeers& lost,
                       Time expires) {
  const std::vector<std::string>& hosts = job.welcome.hosts;
  const auto is_here = [&](Rank rank) { return hosts[rank] == hosts[components.rank]; };
  ClockNeighbours neighbours{std::nullopt, job.node.children,
                             std::ranges::all_of(job.node.children, is_here)};
  if (components.rank != 0) {
    neighbours.parent = job.node.parent;
    neighbours.on_this_host &= is_here(job.node.parent);
  }
  ClockExchange exchange = exchange_clocks(std::move(neighbours), components.transport.get(), shared, expires,
                                           [&] { return newly_lost(lost, *components.transport); });
  job.early = std::move(exchange.early);
  job.welcome.status = std::move(exchange.status);
  const JobClock& clock = exchange.clock;
  if (components.elastic && job.welcome.status.ok())
    TrainingRecord::of_process().begin_generation(components.generation, job.welcome.steps);
  const Config& config = components.config;
  shared.observer.recorder().identify(components.rank, components.size, job.welcome.job);
  shared.observer.begin({components.rank, components.size, components.host, getpid(), clock.offset_ns,
                         clock.origin_ns, clock.epoch_us},
                        {.fusion_threshold = config.fusion_threshold,
                         .linger = from_seconds(config.cycle_time * 1e-3),
                         .chunk_bytes = config.ring_chunk});
}

}  // namespace

std::string StartedJob::process_of(Rank rank) const {
  return fmt::format("process {} on {}", welcome.process_ids.at(rank), welcome.hosts.at(rank));
}

StartedJob start_job(RuntimeComponents& components, RuntimeState& shared) {
  shared.observer.doing("waiting for the other ranks to start");
  // In an elastic job the launcher sees to ranks that do not come.
  constexpr double kDay = 86'400;
  const double timeout =
      components.elastic ? kDay : components.config.start_timeout + (components.rank == 0 ? 0.0 : 3.0);
  LostPeers lost(components);
  StartedJob job{bootstrap(components, shared, lost, timeout), {}, {}};
  if (!job.welcome.status.ok()) return job;
  const auto alive = [&] {
    shared.heartbeat.fetch_add(1, std::memory_order_relaxed);
    lost.look(clock_now());
    if (is_superseded(components)) throw StartSuperseded();
    if (lost.unreported()) throw PeerGone(lost.take_unreported().front());
  };
  try {
    if (components.on_peers_known) components.on_peers_known(job.welcome, alive);
    std::ranges::find_if(components.backends,
                         [&](auto& each) { return each->on_peers_known(job.welcome.hosts, alive); });
    job.node = tree::by_host(components.rank, job.welcome.hosts);
    begin_observation(job, components, shared, lost, clock_now() + from_seconds(timeout));
  } catch (const StartSuperseded&) {
    job.welcome.status = superseded_start();
  } catch (const PeerGone& gone) {
    job.welcome.status = lost_during_start(gone.rank, job.process_of(gone.rank), lost.told_end_of(gone.rank));
  }
  return job;
}

}  // namespace rueda
