// SPDX-License-Identifier: Apache-2.0
#include "core/engine/progress_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "core/base/log.h"
#include "core/engine/joined_contribution.h"

namespace rueda {
namespace {

using std::chrono::milliseconds;

}  // namespace

ProgressEngine::ProgressEngine(RuntimeComponents parts, RuntimeState& shared)
    : parts_(std::move(parts)),
      shared_(shared),
      works_(parts_.backends, static_cast<std::size_t>(parts_.config.works_in_flight), shared.observer,
             {[this](std::span<Entry> entries, const Status& status) { complete(entries, status); },
              [this](const Plan& plan, const std::string& what) { give_up(plan, what); }}),
      polling_(from_seconds(parts_.config.poll_time * 1e-6)) {
  owner_.check();
  if (parts_.record) shared_.observer.recorder().use_page(parts_.record);
}

// One round of everything; whether anything moved. One that is lent ends where something is not for it.
bool ProgressEngine::turn(bool lent, Time now) {
  owner_.check();
  shared_.heartbeat.fetch_add(1, std::memory_order_relaxed);
  bool moved = accept_submissions(now);
  moved |= hear_others(now);
  if (parts_.transport) std::ranges::copy(parts_.transport->lost(now), std::back_inserter(losses_));
  if (!lent) std::ranges::for_each(std::exchange(losses_, {}), [&](Rank lost) { name_the_lost(lost); });
  negotiator_->tick(now, !works_.empty());
  if (lent && !lends()) return true;
  moved |= tell_others();
  if (failed_) return true;  // Plans call nothing any more
  take_plans();
  if (lent && !lends()) return true;
  moved |= start_plans(now);
  moved |= works_.step(now);
  for (const std::unique_ptr<Backend>& backend : parts_.backends) backend->tend(false);
  moved |= come_to_rest();
  notice_unmoved(now);
  shared_.released.add(released_);
  return moved;
}

// Nothing of this rank can fail any more: it has departed, so no Work will begin here.
bool ProgressEngine::come_to_rest() {
  if (rested_ || !departed_ || !pending_.empty() || !works_.empty()) return false;
  rested_ = true;
  negotiator_->rest();
  return true;
}

bool ProgressEngine::accept_submissions(Time now) {
  const bool departing = shared_.departing.load();  // read before the queue: all that came before is in it
  if (shared_.queue.empty() && departing == departed_) return false;
  std::vector<Entry> entries = std::exchange(spare_, {});
  shared_.queue.take(entries);
  const bool any = !entries.empty();
  if (any) pending_.forget_unused();
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
void ProgressEngine::accept(std::span<Entry> entries, Time now) {
  for (Entry& entry : entries) {
    const bool known = negotiator_->sets().find(entry.request().process_set) != nullptr;
    const std::string objection = pending_.objection_to(entry, known);
    if (objection.empty()) continue;
    const Status status = Status::invalid_argument(
        fmt::format("{}: rank {} {}", title(entry.request()), parts_.rank, objection));
    return give_back(entries, status);
  }
  const SharedRequest first = entries.front().shared_request;
  PendingPlace* const place = entries.front().place;
  for (Entry& entry : entries) {
    entry.flight = shared_.observer.submitted(entry.request());
    entry.calls_out = entry.submission().allocate != nullptr;
    if (entry.calls_out) ++calling_out_;
    on_devices_ |= entry.request().device != DeviceKind::host;
    pending_.add(std::move(entry));
  }
  CacheId& id = place->id;
  id = negotiator_->submit(first, now, id);
}

// Tells the submitter how they ended; what owns tensors is destroyed on its side. All names are free before
// that: who hears of one of a group may submit all of it again at once.
void ProgressEngine::give_back(std::span<Entry> entries, const Status& status) {
  for (Entry& entry : entries) NamesInFlight::free(entry);
  for (Entry& entry : entries) {
    // A ghost has no name here, nobody waits for it, and nobody else knows its memory.
    if (entry.ghost) continue;
    conclude(entry, status);
    entry.shared_request.reset();
    released_.push_back(std::move(entry.handle));
  }
}

bool ProgressEngine::hear_others(Time now) {
  bool moved = false;
  // What arrives after the end belongs to the next job of this process.
  while (parts_.transport && !negotiator_->ended()) {
    std::optional<Envelope> envelope = next_message();
    if (!envelope) break;
    negotiator_->receive(envelope->peer, envelope->bytes, now);
    moved = true;
  }
  return moved;
}

// The threads of this rank hear of a failure first: a send may not return where its receiver has ended.
bool ProgressEngine::tell_others() {
  bool moved = false;
  if (!negotiator_->failure().ok()) complete_all(negotiator_->failure());
  for (Envelope& envelope : negotiator_->take_outgoing()) {
    if (lost_.contains(envelope.peer)) continue;
    parts_.transport->send(envelope.peer, std::move(envelope.bytes));
    moved = true;
  }
  for (const std::string& report : negotiator_->take_reports()) log(LogLevel::warning, "stalled: {}", report);
  return moved;
}

void ProgressEngine::take_plans() {
  shared_.observer.agreed(*negotiator_);
  for (Plan& plan : negotiator_->take_plans()) {
    shared_.observer.planned(plan);
    on_devices_ |= !plan.tensors.empty() && plan.tensors.front().request->device != DeviceKind::host;
    std::vector<Entry> entries = entries_for(plan);
    for (const Entry& entry : entries) {
      if (!entry.ghost) shared_.observer.planned(plan, entry.flight);
    }
    works_.add(std::move(plan), std::move(entries));
  }
  for (const Abort& abort : negotiator_->take_aborts()) works_.abort(abort.plan, abort.status);
}

std::optional<Envelope> ProgressEngine::next_message() {
  if (early_.empty()) return parts_.transport->receive();
  Envelope envelope = std::move(early_.front());
  early_.pop_front();
  return envelope;
}

bool ProgressEngine::start_plans(Time now) {
  bool moved = false;
  while (RunningWorks::Called* const called = works_.next()) {
    start_plan(*called, now);
    moved = true;
  }
  return moved;
}

void ProgressEngine::start_plan(RunningWorks::Called& called, Time now) {
  const Plan& plan = called.plan;
  if (plan.operation == Operation::remove_process_set && plan.status.ok()) {
    const auto set = static_cast<ProcessSetId>(plan.result);
    for (Entry& entry : pending_.take_all(set)) {
      complete({&entry, 1},
               Status::invalid_argument(fmt::format("{}: the process set was removed before all of its "
                                                    "ranks asked for this.",
                                                    title(entry.request()))));
    }
  }
  const bool takes_part = plan.members && plan.members->contains(parts_.rank);
  if (takes_part && plan.status.ok() && traits(plan.operation).moves_data) return works_.start_next(now);
  std::vector<Entry> entries = std::move(called.entries);
  if (plan.status.ok()) decided(plan, entries);
  complete(entries, plan.status);
  works_.drop_next();
}

// Somebody whom they wait for may have stopped: who has does not say so.
void ProgressEngine::notice_unmoved(Time now) {
  if (!works_.running() || now - looked_for_unmoved_ < milliseconds(100)) return;
  looked_for_unmoved_ = now;
  works_.for_unmoved([&](const Plan& plan, Time since) {
    negotiator_->notice_unmoved(plan.tensors.front().request, plan.number, since, now);
  });
}

// What a Plan calls of what this rank has in flight.
std::vector<Entry> ProgressEngine::entries_for(const Plan& plan) {
  std::vector<Entry> entries;
  if (!plan.members || !plan.members->contains(parts_.rank)) return entries;
  if (!plan.status.ok()) {
    pending_.start_group(*plan.tensors.front().request, entries);
    return entries;
  }
  entries.reserve(plan.tensors.size());
  for (const PlanTensor& tensor : plan.tensors) {
    if (pending_.start(*tensor.request, entries) || !traits(plan.operation).moves_data) continue;
    // Rank 0 calls what every rank has reported, or has joined for.
    RUEDA_ASSERT(pending_.joined(plan.process_set));
    entries.push_back(make_ghost(tensor));
  }
  return entries;
}

// This rank cannot carry out that Plan.
void ProgressEngine::give_up(const Plan& plan, const std::string& what) {
  std::string whom = title(*plan.tensors.front().request);
  if (plan.tensors.size() > 1) whom += fmt::format(", fused with {} others,", plan.tensors.size() - 1);
  const std::string remedy =
      plan.capture == 0
          ? "Only this operation has failed: free memory there, or ask for less, and submit it again."
          : "Only this capture has failed: mend that, and capture again on all ranks.";
  negotiator_->abort(plan.number,
                     Status::backend_error(fmt::format("{} failed on rank {} ({}): {}. {}", whom, parts_.rank,
                                                       place_of(parts_.rank), what, remedy)));
}

// A Plan that moves no data: the outcome of an agreement.
void ProgressEngine::decided(const Plan& plan, std::span<Entry> entries) {
  if (plan.operation == Operation::join) pending_.end_join(plan.process_set);
  for (Entry& entry : entries) entry.handle->result = plan.result;
}

void ProgressEngine::complete(std::span<Entry> entries, const Status& status) {
  for (Entry& entry : entries) {
    if (entry.ghost) continue;
    if (entry.calls_out) --calling_out_;
    shared_.observer.completed(entry.request(), entry.flight, status.ok());
    pending_.finish(entry);
  }
  give_back(entries, status);
}

// The job cannot go on: everything this rank has ends with the reason, and nothing new is taken.
void ProgressEngine::complete_all(const Status& status) {
  failed_ = true;
  for (const std::unique_ptr<Backend>& backend : parts_.backends) backend->tend(true);
  shared_.queue.close(status);
  works_.end(status);
  std::vector<Entry> waiting = pending_.take_all();
  complete(waiting, status);
  std::vector<Entry> entries;
  shared_.queue.take(entries);
  give_back(entries, status);
  shared_.released.add(released_);
}

void ProgressEngine::name_the_lost(Rank lost) {
  lost_.add(RankSet::of(lost));
  if (std::string words = parts_.last_words ? parts_.last_words(lost) : ""; !words.empty())
    log(LogLevel::error, "rank {} ({}) was lost; what it did last:{}", lost, place_of(lost), words);
  negotiator_->fail(Status::peer_lost(
      fmt::format("rank {} ({}) is lost: its process {}. The job cannot go on; start it again.", lost,
                  place_of(lost), how_it_ended(lost))));
}

// Whoever knows may need a moment longer than we to hear of it; the job is over anyway.
std::string ProgressEngine::how_it_ended(Rank lost) {
  constexpr int kLooks = 40;
  for (int look = 0; parts_.how_it_ended && look < kLooks; ++look) {
    if (std::string words = parts_.how_it_ended(lost); !words.empty()) return words;
    shared_.heartbeat.fetch_add(1, std::memory_order_relaxed);
    std::this_thread::sleep_for(milliseconds(5));
  }
  return "ended without shutdown()";
}

std::string ProgressEngine::place_of(Rank rank) const {
  return fmt::format("process {} on {}", welcome_.process_ids.at(rank), welcome_.hosts.at(rank));
}

// What this rank says when others wait for it.
StallInspector::OwnState ProgressEngine::own_state(const Asked& asked) const {
  const auto& [key, plan] = asked;
  if (plan > 0) {
    const std::optional<std::string_view> phase = works_.phase_of(plan);
    if (!phase) return {};
    Time moved{};
    works_.for_unmoved([&](const Plan& each, Time since) { moved = each.number == plan ? since : moved; });
    return {true, true, moved, fmt::format("{}: {}", place_of(parts_.rank), *phase)};
  }
  const ProcessSets::View* view = negotiator_->sets().find(key.process_set);
  if (view == nullptr || !view->members->contains(parts_.rank)) return {};
  const std::string first = pending_.first_of_group(key);
  const std::string words = first.empty() ? shared_.observer.recorder().summary()
                                          : fmt::format("has it in flight in the group of '{}'", first);
  const bool waiting = pending_.contains(key) && first.empty();
  return {true,
          waiting || pending_.joined(key.process_set),
          {},
          fmt::format("{}: {}", place_of(parts_.rank), words)};
}

}  // namespace rueda
