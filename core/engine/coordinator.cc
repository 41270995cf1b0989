// SPDX-License-Identifier: Apache-2.0
#include "core/engine/coordinator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "core/base/log.h"
#include "core/control/tree.h"
#include "core/engine/clock_exchange.h"
#include "core/engine/ghost.h"
#include "core/rueda_version.h"

namespace rueda {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

Introduction introduce(const Parts& parts) {
  Introduction introduction{parts.rank, kVersion, parts.host, getpid(), {}, parts.card, "", parts.job};
  for (const Setting& setting : settings()) {
    introduction.settings.push_back(fmt::format("{}={}", setting.name, setting.show(parts.config)));
  }
  return introduction;
}

}  // namespace

Coordinator::Coordinator(Parts parts, RuntimeState& shared)
    : parts_(std::move(parts)),
      shared_(shared),
      works_(parts_.backends, static_cast<std::size_t>(parts_.config.works_in_flight), shared.observer,
             {[this](Entry& entry, const Status& status) { complete(entry, status); },
              [this](const Plan& plan, const std::string& what) { give_up(plan, what); }}),
      polling_(from_seconds(parts_.config.poll_time * 1e-6)) {
  owner_.check();
  if (parts_.record) shared_.observer.recorder().use_page(parts_.record);
}

Negotiator::Settings Coordinator::negotiator_settings() {
  const Config& config = parts_.config;
  Negotiator::Settings settings{.process_sets = members_of(parts_.process_sets)};
  settings.choose_backend = [this](const Plan& plan) { return able_backend(parts_.backends, plan, 0); };
  settings.second_backend = [this](const Plan& plan) {
    return able_backend(parts_.backends, plan, plan.members->count() > 1);
  };
  if (config.autotune) settings.tuning = KnobSearch::settings_of(config);
  settings.chunk_bytes = config.ring_chunk;
  settings.caller = {from_seconds(config.cycle_time * 1e-3), config.fusion_threshold, config.cache_capacity};
  settings.full_join = config.full_join;
  settings.stalls.report_after =
      config.stall_check_disable ? Duration{} : from_seconds(config.stall_check_time);
  settings.stalls.fail_after = from_seconds(config.stall_shutdown_time);
  settings.stalls.own_state = [this](const Key& key) { return own_state(key); };
  settings.stalls.place_of = [this](Rank rank) { return place_of(rank); };
  return settings;
}

Welcome Coordinator::start() {
  shared_.observer.doing("waiting for the other ranks to start");
  RollCall roll_call(introduce(parts_), parts_.size, parts_.process_sets);
  // Others wait a little longer than rank 0, so that its words, which name the missing, reach them first.
  const double patience = parts_.config.start_timeout + (parts_.rank == 0 ? 0.0 : 3.0);
  const Time expires = clock_now() + from_seconds(patience);
  while (true) {
    for (Envelope& envelope : roll_call.take_outgoing())
      parts_.transport->send(envelope.peer, std::move(envelope.bytes));
    if (roll_call.welcome()) break;
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
  if (parts_.meet) parts_.meet(welcome_);
  const TreeNode node = tree::by_host(parts_.rank, welcome_.hosts);
  begin_observation(node, clock_now() + from_seconds(patience));
  negotiator_.emplace(node, parts_.size, negotiator_settings());
  return welcome_;
}

void Coordinator::begin_observation(const TreeNode& node, Time expires) {
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

void Coordinator::run() {
  polling_.begin(clock_now());
  while (!finished()) {
    try {
      turn_or_rest();
    } catch (const PeerGone& gone) {
      name_the_lost(gone.rank);
    } catch (const std::exception& error) {
      const bool again = !negotiator_->failure().ok();  // even telling the others does not work
      negotiator_->fail(Status::backend_error(fmt::format("rank {} failed: {}", parts_.rank, error.what())));
      if (again) complete_all(negotiator_->failure());
    }
  }
  shared_.observer.doing("ended");
}

bool Coordinator::finished() const { return failed_ || (negotiator_->ended() && works_.empty()); }

bool Coordinator::turn() {
  owner_.check();
  shared_.heartbeat.fetch_add(1, std::memory_order_relaxed);
  const Time now = clock_now();
  bool moved = accept_submissions(now);
  moved |= exchange_messages(now);
  if (!negotiator_->failure().ok()) {
    complete_all(negotiator_->failure());
    return true;
  }
  moved |= start_plans();
  moved |= works_.step();
  moved |= come_to_rest();
  return moved;
}

// Nothing of this rank can fail any more: it has departed, so no Work will begin here.
bool Coordinator::come_to_rest() {
  if (rested_ || !departed_ || !pending_.empty() || !works_.empty()) return false;
  rested_ = true;
  negotiator_->rest();
  return true;
}

bool Coordinator::accept_submissions(Time now) {
  const bool departing = shared_.departing.load();  // read before the queue: all that came before is in it
  std::vector<Entry> entries = std::exchange(spare_, {});
  shared_.queue.take(entries);
  const bool any = !entries.empty();
  for (std::span<Entry> rest = entries; !rest.empty();) {
    const std::size_t together = of_one_group(rest);
    accept(rest.first(together), now);
    rest = rest.subspan(together);
  }
  entries.clear();
  spare_ = std::move(entries);
  if (departing && !departed_) {
    departed_ = true;
    departed_at_ = now;
    negotiator_->depart(now);
    return true;
  }
  return any;
}

// A group, or one operation: all or none.
void Coordinator::accept(std::span<Entry> entries, Time now) {
  for (const Entry& entry : entries) {
    const bool known = negotiator_->sets().find(entry.request().process_set) != nullptr;
    const std::string objection = pending_.objection_to(entry.request(), known);
    if (objection.empty()) continue;
    const Status status = Status::invalid_argument(
        fmt::format("{}: rank {} {}", title(entry.request()), parts_.rank, objection));
    for (Entry& refused : entries) give_back(refused, status);
    return;
  }
  const SharedRequest first = entries.front().shared_request;
  for (Entry& entry : entries) {
    entry.flight = shared_.observer.submitted(entry.request());
    pending_.add(std::move(entry));
  }
  negotiator_->submit(first, now);
}

// Tells the submitter how it ended; what owns tensors is destroyed on its side.
void Coordinator::give_back(Entry& entry, const Status& status) {
  entry.submission().allocate = nullptr;
  entry.handle->complete(status, std::move(entry.submission().owner));
  entry.shared_request.reset();
  shared_.released.add(std::move(entry.handle));
}

bool Coordinator::exchange_messages(Time now) {
  bool moved = false;
  if (parts_.transport) {
    // What arrives after the end belongs to the next job of this process.
    while (!negotiator_->ended()) {
      std::optional<Envelope> envelope = next_message();
      if (!envelope) break;
      negotiator_->receive(envelope->peer, envelope->bytes, now);
      moved = true;
    }
    for (Rank lost : parts_.transport->lost()) name_the_lost(lost);
  }
  negotiator_->tick(now);
  for (Envelope& envelope : negotiator_->take_outgoing()) {
    parts_.transport->send(envelope.peer, std::move(envelope.bytes));
    moved = true;
  }
  for (const std::string& report : negotiator_->take_reports()) log(LogLevel::warning, "stalled: {}", report);
  shared_.observer.agreed(*negotiator_);
  for (Plan& plan : negotiator_->take_plans()) {
    shared_.observer.planned(plan);
    for (const PlanTensor& tensor : plan.tensors) {
      const Entry* entry = pending_.waiting_for(*tensor.request);
      if (entry != nullptr) shared_.observer.planned(plan, entry->flight);
    }
    works_.add(std::move(plan));
  }
  for (const Abort& abort : negotiator_->take_aborts()) works_.abort(abort.plan, abort.status);
  return moved;
}

std::optional<Envelope> Coordinator::next_message() {
  if (early_.empty()) return parts_.transport->receive();
  Envelope envelope = std::move(early_.front());
  early_.pop_front();
  return envelope;
}

bool Coordinator::start_plans() {
  bool moved = false;
  while (std::optional<Works::Called> called = works_.next()) {
    start_plan(std::move(*called));
    moved = true;
  }
  return moved;
}

void Coordinator::start_plan(Works::Called called) {
  const Plan& plan = called.plan;
  if (plan.operation == Operation::remove_process_set && plan.status.ok()) {
    const auto set = static_cast<ProcessSetId>(plan.result);
    for (Entry& entry : pending_.take_all(set)) {
      complete(entry,
               Status::invalid_argument(fmt::format("{}: the process set was removed before all of its "
                                                    "ranks asked for this.",
                                                    title(entry.request()))));
    }
  }
  if (!plan.members || !plan.members->contains(parts_.rank)) return;
  std::vector<Entry> entries;
  if (!plan.status.ok()) {
    pending_.start_group(*plan.tensors.front().request, entries);
    for (Entry& entry : entries) complete(entry, plan.status);
    return;
  }
  entries.reserve(plan.tensors.size());
  const bool carried_out = traits(plan.operation).moves_data;
  for (const PlanTensor& tensor : plan.tensors) {
    if (pending_.start(*tensor.request, entries) || !carried_out) continue;
    // Rank 0 calls what every rank has reported, or has joined for.
    RUEDA_ASSERT(pending_.joined(plan.process_set));
    entries.push_back(make_ghost(tensor));
  }
  if (carried_out) return works_.start(std::move(called), std::move(entries));
  for (Entry& entry : entries) decided(plan, entry);
}

// This rank cannot carry out that Plan.
void Coordinator::give_up(const Plan& plan, const std::string& what) {
  std::string whom = title(*plan.tensors.front().request);
  if (plan.tensors.size() > 1) whom += fmt::format(", fused with {} others,", plan.tensors.size() - 1);
  negotiator_->abort(
      plan.number,
      Status::backend_error(fmt::format(
          "{} failed on rank {} ({}): {}. Only this operation has failed: free memory there, or ask "
          "for less, and submit it again.",
          whom, parts_.rank, place_of(parts_.rank), what)));
}

// A Plan that moves no data: the outcome of an agreement.
void Coordinator::decided(const Plan& plan, Entry& entry) {
  if (plan.operation == Operation::join) pending_.end_join(plan.process_set);
  entry.handle->result = plan.result;
  complete(entry, plan.status);
}

void Coordinator::complete(Entry& entry, const Status& status) {
  // What stands in for this rank has no name here, nobody who waits, and memory that nobody else knows.
  if (entry.ghost) return;
  shared_.observer.completed(entry.request(), entry.flight, status.ok());
  // Before the Handle: its waiter may submit the name again at once.
  pending_.finish(entry);
  give_back(entry, status);
}

// The job cannot go on: everything this rank has ends with the reason, and nothing new is taken.
void Coordinator::complete_all(const Status& status) {
  failed_ = true;
  shared_.queue.close(status);
  works_.end(status);
  for (Entry& entry : pending_.take_all()) complete(entry, status);
  std::vector<Entry> entries;
  shared_.queue.take(entries);
  for (Entry& entry : entries) give_back(entry, status);
}

void Coordinator::name_the_lost(Rank lost) {
  if (std::string words = parts_.last_words ? parts_.last_words(lost) : ""; !words.empty())
    log(LogLevel::error, "rank {} ({}) was lost; what it did last:{}", lost, place_of(lost), words);
  negotiator_->fail(Status::peer_lost(
      fmt::format("rank {} ({}) is lost: its process {}. The job cannot go on; start it again.", lost,
                  place_of(lost), how_it_ended(lost))));
}

// Whoever knows may need a moment longer than we to hear of it; the job is over anyway.
std::string Coordinator::how_it_ended(Rank lost) {
  constexpr int kLooks = 40;
  for (int look = 0; parts_.how_it_ended && look < kLooks; ++look) {
    if (std::string words = parts_.how_it_ended(lost); !words.empty()) return words;
    shared_.heartbeat.fetch_add(1, std::memory_order_relaxed);
    std::this_thread::sleep_for(milliseconds(5));
  }
  return "ended without shutdown()";
}

std::string Coordinator::place_of(Rank rank) const {
  return fmt::format("process {} on {}", welcome_.process_ids.at(rank), welcome_.hosts.at(rank));
}

// What this rank says when others wait for it.
StallInspector::OwnState Coordinator::own_state(const Key& key) const {
  const ProcessSets::View* view = negotiator_->sets().find(key.process_set);
  if (view == nullptr || !view->members->contains(parts_.rank)) return {};
  const Entry* entry = pending_.waiting(key);
  const std::string first = entry != nullptr ? entry->request().follows : "";
  const std::string words = first.empty() ? shared_.observer.recorder().summary()
                                          : fmt::format("has it in flight in the group of '{}'", first);
  const bool waiting = pending_.contains(key) && first.empty();
  return {true, waiting || pending_.joined(key.process_set),
          fmt::format("{}: {}", place_of(parts_.rank), words)};
}

// When nothing moves: look again soon if somebody may need us within microseconds, else sleep on the bell.
// Shortly after a move that is likely also when nothing is pending: the next submission often follows.
void Coordinator::turn_or_rest() {
  const Time begin = clock_now();
  const bool expecting = polling_.goes_on(begin);
  const std::uint32_t heard = expecting ? 0 : shared_.bell->listen();
  if (turn()) {
    polling_.moved(begin, busy());
    shared_.observer.turned();
    if (!expecting) shared_.bell->stay_awake();
  } else if (expecting) {
    polling_.in_vain();
  } else {
    polling_.give_up();
    remind_of_departure(begin);
    shared_.observer.doing(works_.running() ? works_.phase() : busy() ? "waiting for other ranks" : "idle");
    shared_.bell->sleep(heard, longest_sleep(begin, busy()));
  }
}

bool Coordinator::busy() const {
  return !works_.empty() || !pending_.empty() || negotiator_->busy() || departed_;
}

nanoseconds Coordinator::longest_sleep(Time now, bool busy) const {
  nanoseconds longest = milliseconds(100);
  if (has_to_look()) {
    // What we wait for cannot wake us. Sleeping a tenth of what was waited so far adds at most that to any
    // wait.
    const nanoseconds waited = polling_.since_move(now);
    longest = busy ? std::clamp<nanoseconds>(waited / 10, microseconds(50), milliseconds(1))
                   : std::clamp<nanoseconds>(waited / 4, milliseconds(1), milliseconds(10));
  }
  if (std::optional<Time> due = negotiator_->due())
    longest = std::min<nanoseconds>(longest, std::max(*due - now, Duration(1)));
  return longest;
}

bool Coordinator::has_to_look() const {
  return (parts_.transport && !parts_.transport->rings_bell()) || !works_.ring_bell();
}

void Coordinator::remind_of_departure(Time now) {
  if (!departed_ || reminded_ || now - departed_at_ < std::chrono::seconds(10)) return;
  reminded_ = true;
  const RankSet present = negotiator_->present();
  if (present.empty()) return;
  log(LogLevel::warning, "shutdown waits for {}, which {} not called it", to_string(present),
      present.count() == 1 ? "has" : "have");
}

}  // namespace rueda
