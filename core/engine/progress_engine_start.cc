// SPDX-License-Identifier: Apache-2.0
// The ProgressEngine's beginning: it waits for the other ranks, and learns who is where and what time it is
// there.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "core/base/log.h"
#include "core/control/negotiation/tree.h"
#include "core/engine/clock_exchange.h"
#include "core/engine/progress_engine.h"
#include "core/rueda_version.h"

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

}  // namespace

Negotiator::Settings ProgressEngine::negotiator_settings() {
  const Config& config = parts_.config;
  Negotiator::Settings settings{.process_sets = members_of(parts_.process_sets)};
  settings.choose_backend = [this](Plan& plan) { return able_backend(parts_.backends, plan, 0); };
  settings.second_backend = [this](Plan& plan) {
    return able_backend(parts_.backends, plan, plan.members->count() > 1);
  };
  if (config.autotune) settings.tuning = TuningSearch::settings_of(config);
  settings.chunk_bytes = config.ring_chunk;
  settings.caller = {from_seconds(config.cycle_time * 1e-3), config.fusion_threshold, config.cache_capacity};
  settings.full_join = config.full_join;
  settings.stalls.report_after =
      config.stall_check_disable ? Duration{} : from_seconds(config.stall_check_time);
  settings.stalls.fail_after = from_seconds(config.stall_shutdown_time);
  settings.stalls.own_state = [this](const Asked& asked) { return own_state(asked); };
  settings.stalls.place_of = [this](Rank rank) { return place_of(rank); };
  return settings;
}

Welcome ProgressEngine::start() {
  shared_.observer.doing("waiting for the other ranks to start");
  Bootstrap roll_call(introduce(parts_), parts_.size, parts_.process_sets);
  // Others wait a little longer than rank 0, so that its words, which name the missing, reach them first.
  const double patience = parts_.config.start_timeout + (parts_.rank == 0 ? 0.0 : 3.0);
  const Time expires = clock_now() + from_seconds(patience);
  while (true) {
    for (Envelope& envelope : roll_call.take_outgoing())
      parts_.transport->send(envelope.peer, std::move(envelope.bytes));
    if (roll_call.welcome()) break;
    if (shared_.unwanted.load()) {
      welcome_.status = Status::shut_down("init: this rank has left before the others were there.");
      return welcome_;
    }
    shared_.heartbeat.fetch_add(1, std::memory_order_relaxed);
    if (std::optional<Envelope> envelope = parts_.transport->receive()) {
      roll_call.receive(envelope->peer, envelope->bytes);
    } else if (clock_now() > expires) {
      roll_call.expire(patience);
    } else {
      shared_.bell->sleep(shared_.bell->listen(), microseconds(200));
    }
  }
  for (const std::string& line : roll_call.differing_settings())
    log(LogLevel::warning, "settings differ: {}", line);
  welcome_ = *roll_call.welcome();
  if (!welcome_.status.ok()) return welcome_;
  const auto alive = [this] { shared_.heartbeat.fetch_add(1, std::memory_order_relaxed); };
  if (parts_.meet) parts_.meet(welcome_, alive);
  std::ranges::find_if(parts_.backends, [&](auto& each) { return each->meet(welcome_.hosts, alive); });
  const TreeNode node = tree::by_host(parts_.rank, welcome_.hosts);
  begin_observation(node, clock_now() + from_seconds(patience));
  negotiator_.emplace(node, parts_.size, negotiator_settings());
  return welcome_;
}

void ProgressEngine::begin_observation(const TreeNode& node, Time expires) {
  const Rank rank = parts_.rank, size = parts_.size;
  const std::optional<Rank> parent = rank == 0 ? std::nullopt : std::optional(node.parent);
  ClockExchange exchange = exchange_clocks(parent, node.children, parts_.transport.get(), shared_, expires);
  early_ = std::move(exchange.early);
  welcome_.status = std::move(exchange.status);
  const JobClock& clock = exchange.clock;
  shared_.observer.begin(
      {rank, size, parts_.host, getpid(), clock.offset_ns, clock.origin_ns, clock.epoch_us},
      parts_.config.fusion_threshold);
}

}  // namespace rueda
