// SPDX-License-Identifier: Apache-2.0
#include "core/engine/progress_engine.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/operation_traits.h"
#include "core/engine/joined_contribution.h"
#include "core/observe/training/training_record.h"

namespace rueda {

ProgressEngine::ProgressEngine(RuntimeComponents components, RuntimeState& shared)
    : components_(std::move(components)),
      shared_(shared),
      works_(components_.backends, static_cast<std::size_t>(components_.config.works_in_flight),
             shared.observer,
             {[this](const Plan& plan, std::span<Entry> entries, const Status& status) {
                complete(plan, entries, status);
              },
              [this](const Plan& plan, const WorkFailure& failure) { abort(plan, failure); }}),
      lost_(components_) {
  owner_.check();
  if (components_.record) shared_.observer.recorder().use_page(components_.record);
}

const Welcome& ProgressEngine::start() {
  job_ = start_job(components_, shared_);
  negotiator_.emplace(job_.node, components_.size, negotiator_settings());
  note_static_sets();
  cut_where_launcher_tells(job_.welcome.status);
  for (const Envelope& envelope : std::exchange(job_.early, {}))
    negotiator_->receive(envelope.peer, envelope.bytes, clock_now());
  return job_.welcome;
}

void ProgressEngine::note_static_sets() {
  ProcessSetId id = kWorld;
  for (const RankSet& members : members_of(components_.process_sets))
    shared_.observer.recorder().note_set(++id, members);
}

Negotiator::Settings ProgressEngine::negotiator_settings() {
  const Config& config = components_.config;
  Negotiator::Settings settings{.process_sets = members_of(components_.process_sets)};
  settings.choose_backend = [this](Plan& plan) { return able_backend(components_.backends, plan, 0); };
  settings.second_backend = [this](Plan& plan) {
    return able_backend(components_.backends, plan, plan.members->count() > 1);
  };
  if (config.autotune) settings.tuning = TuningSearch::settings_of(config);
  settings.chunk_bytes = config.ring_chunk;
  settings.coordinator = {from_seconds(config.cycle_time * 1e-3), config.fusion_threshold,
                          config.cache_capacity};
  settings.full_join = config.full_join;
  settings.stalls.report_after =
      config.stall_check_disable ? Duration{} : from_seconds(config.stall_check_time);
  settings.stalls.fail_after = from_seconds(config.stall_shutdown_time);
  settings.stalls.own_state = [this](const Asked& asked) { return own_state(asked); };
  settings.stalls.process_of = [this](Rank rank) { return job_.process_of(rank); };
  return settings;
}

bool ProgressEngine::progress(Caller caller, Time now) {
  owner_.check();
  shared_.heartbeat.fetch_add(1, std::memory_order_relaxed);
  const bool of_waiter = caller == Caller::waiter;
  bool moved = accept_submissions(now);
  // A message that arrives after the end belongs to the next job of this process.
  while (components_.transport && !negotiator_->ended()) {
    const std::optional<Envelope> envelope = components_.transport->receive();
    if (!envelope) break;
    negotiator_->receive(envelope->peer, envelope->bytes, now);
    moved = true;
  }
  if (components_.transport) lost_.add(components_.transport->lost(now));
  lost_.look(now);
  if (!of_waiter) {
    if (shared_.aborted.load(std::memory_order_relaxed) && negotiator_->failure().ok())
      fail("its program has aborted the job. The others cannot go on");
    for (Rank rank : lost_.take_unreported()) report_lost(rank);
  }
  negotiator_->tick(now, !works_.empty());
  if (of_waiter && !waiters_may_run()) return true;
  // The threads of this rank hear of a failure first: a send may not return where its receiver has ended.
  if (!negotiator_->failure().ok()) complete_all(negotiator_->failure());
  for (Envelope& envelope : negotiator_->take_outgoing()) {
    if (lost_.contains(envelope.peer)) continue;
    components_.transport->send(envelope.peer, std::move(envelope.bytes));
    moved = true;
  }
  tell_stalls();
  if (failed_) return true;  // Plans call nothing any more
  now = take_plans(now);
  if (of_waiter && !waiters_may_run()) return true;
  moved |= works_.step(now);
  for (const std::unique_ptr<Backend>& backend : components_.backends) backend->tend(false);
  moved |= end_departure();
  notice_unmoved(now);
  shared_.released.add(released_);
  return moved;
}

void ProgressEngine::tell_stalls() {
  for (const Missing& missing : negotiator_->take_missing())
    for (const Key& key : missing.operations) pending_.tell_missing(key, missing.words);
  for (const std::string& report : negotiator_->take_reports()) {
    log(LogLevel::warning, "stalled: {}", report);
    if (components_.stalled) components_.stalled();
  }
  shared_.observer.stalled(failed_ ? std::string_view() : negotiator_->oldest_report());
}

bool ProgressEngine::waiters_may_run() const {
  return bound_.calling_out == 0 && !bound_.on_devices && !lost_.unreported() && !shared_.aborted.load() &&
         negotiator_->failure().ok() && !finished();
}

bool ProgressEngine::busy() const {
  return has_operations() || negotiator_->busy() || departure_.state != Departure::State::present;
}

bool ProgressEngine::quiet() const {
  return !busy() && !shared_.departing.load() && shared_.queue.empty() &&
         (!components_.transport || components_.transport->quiet()) && !negotiator_->due();
}

bool ProgressEngine::must_poll() const {
  return (components_.transport && !components_.transport->rings_doorbell()) || !works_.ring_doorbell();
}

void ProgressEngine::end_in_order() {
  const bool in_order = negotiator_->ended() && failure().ok();
  if (in_order && components_.transport) components_.transport->end_in_order();
  if (in_order) shared_.observer.recorder().end_in_order();
  cut_where_launcher_tells(failure());
}

// A rank that is lost takes some time to end its connections.
void ProgressEngine::cut_where_launcher_tells(const Status& failure) {
  if (components_.elastic && components_.transport && failure.code == StatusCode::peer_lost)
    components_.transport->cut();
}

std::string_view ProgressEngine::phase() const {
  return works_.running() ? works_.phase() : busy() ? "waiting for other ranks" : "idle";
}

// --- Submissions of this rank.

bool ProgressEngine::accept_submissions(Time now) {
  const bool departing = shared_.departing.load();  // read before the queue: all that came before is in it
  const bool departs = departing && departure_.state == Departure::State::present;
  if (shared_.queue.empty() && !departs) return false;
  std::vector<Entry> entries = std::exchange(spare_, {});
  shared_.queue.take(entries);
  const bool any = !entries.empty();
  if (any) pending_.forget_unused();
  for (std::span<Entry> rest = entries; !rest.empty();) {
    const std::span<Entry> group = rest.first(of_one_group(rest));
    rest = rest.subspan(group.size());
    if (const Status status = refusal(group); !status.ok()) {
      shared_.observer.failed(status);
      conclude_all(group, status);
      continue;
    }
    const SharedRequest first = group.front().shared_request;
    CacheId& id = group.front().pending_name->id;
    for (Entry& entry : group) {
      entry.flight = shared_.observer.submitted(entry.request(), now);
      entry.calls_out = entry.submission().allocate != nullptr;
      if (entry.calls_out) ++bound_.calling_out;
      bound_.on_devices |= entry.request().device != DeviceKind::host;
      pending_.add(std::move(entry));
    }
    id = negotiator_->submit(first, now, id);
  }
  entries.clear();
  spare_ = std::move(entries);
  if (!departs) return any;
  departure_ = {Departure::State::departed, false, now};
  negotiator_->depart(now);
  return true;
}

// Why this rank cannot ask for a group, or for one operation: all or none.
Status ProgressEngine::refusal(std::span<Entry> group) {
  for (Entry& entry : group) {
    const bool known = negotiator_->sets().find(entry.request().process_set) != nullptr;
    const std::string reason = pending_.problem_in(entry, known);
    if (reason.empty()) continue;
    return Status::invalid_argument(
        fmt::format("{}: rank {} {}", title(entry.request()), components_.rank, reason));
  }
  return {};
}

// Nothing of this rank can fail any more: it has departed, so no Work will begin here.
bool ProgressEngine::end_departure() {
  if (departure_.state != Departure::State::departed || has_operations()) return false;
  departure_.state = Departure::State::over;
  negotiator_->rest();
  return true;
}

void ProgressEngine::remind_of_shutdown(Time now) {
  const bool departed = departure_.state != Departure::State::present;
  if (!departed || departure_.reminded || now - departure_.at < std::chrono::seconds(10)) return;
  departure_.reminded = true;
  const RankSet present = negotiator_->present();
  if (present.empty()) return;
  log(LogLevel::warning, "shutdown waits for {}, which {} not called it", to_string(present),
      present.count() == 1 ? "has" : "have");
}

// --- Plans of all ranks.

// Returns the time: other ranks may have submitted what these Plans call since this turn began.
Time ProgressEngine::take_plans(Time now) {
  shared_.observer.agreed(*negotiator_);
  std::vector<Plan> plans = negotiator_->take_plans();
  if (!plans.empty()) now = clock_now();
  for (Plan& plan : plans) {
    shared_.observer.planned(plan, now);
    bound_.on_devices |= !plan.tensors.empty() && plan.tensors.front().request->device != DeviceKind::host;
    std::vector<Entry> entries;  // what it calls of what this rank has in flight
    const bool takes_part = plan.members && plan.members->contains(components_.rank);
    if (takes_part && !plan.status.ok()) {
      pending_.start_group(*plan.tensors.front().request, entries);
    } else if (takes_part) {
      entries.reserve(plan.tensors.size());
      for (const PlanTensor& tensor : plan.tensors) {
        if (pending_.start(*tensor.request, entries) || !traits(plan.operation).moves_data) continue;
        // Rank 0 calls what every rank has reported, or has joined for.
        RUEDA_ASSERT(pending_.joined(plan.process_set));
        entries.push_back(make_joined_contribution(tensor));
      }
    }
    for (const Entry& entry : entries) {
      if (!entry.joined) shared_.observer.planned(plan, entry.flight);
    }
    works_.add(std::move(plan), std::move(entries));
  }
  for (const Abort& abort : negotiator_->take_aborts()) works_.abort(abort.plan, abort.status);
  return now;
}

// Another rank for which a Work waits may have stopped, and does not say so.
void ProgressEngine::notice_unmoved(Time now) {
  if (!works_.running() || now - looked_for_unmoved_ < std::chrono::milliseconds(100)) return;
  looked_for_unmoved_ = now;
  works_.for_unmoved([&](const Plan& plan, Time since) {
    negotiator_->notice_unmoved(plan.tensors.front().request, plan.number, since, now);
  });
}

// --- Operations end.

// A Plan that moves no data is the outcome of an agreement.
void ProgressEngine::complete(const Plan& plan, std::span<Entry> entries, const Status& status) {
  if (status.ok() && plan.operation == Operation::remove_process_set) {
    for (Entry& entry : pending_.take_all(static_cast<ProcessSetId>(plan.result))) {
      complete({&entry, 1},
               Status::invalid_argument(fmt::format("{}: the process set was removed before all of its "
                                                    "ranks asked for this.",
                                                    title(entry.request()))));
    }
  }
  if (status.ok()) note_sets(plan);
  if (status.ok() && !traits(plan.operation).moves_data) {
    if (plan.operation == Operation::join) pending_.end_join(plan.process_set);
    for (Entry& entry : entries) entry.handle->numbers.result = plan.result;
  }
  complete(entries, status);
}

void ProgressEngine::note_sets(const Plan& plan) {
  Recorder& recorder = shared_.observer.recorder();
  if (plan.operation == Operation::add_process_set)
    recorder.note_set(static_cast<ProcessSetId>(plan.result), plan.tensors.front().request->members);
  if (plan.operation == Operation::remove_process_set)
    recorder.note_set(static_cast<ProcessSetId>(plan.result), {});
}

// A failure after a rank has left the job is not the reason of its end.
void ProgressEngine::complete(std::span<Entry> entries, const Status& status) {
  const bool is_present = departure_.state == Departure::State::present;
  for (Entry& entry : entries) {
    if (entry.joined) continue;
    if (entry.calls_out) --bound_.calling_out;
    shared_.observer.completed(entry.request(), entry.flight, status.ok());
    pending_.finish(entry);
  }
  shared_.observer.ended(is_present ? status : Status());
  conclude_all(entries, status);
}

// Tells the submitter how they ended; what owns tensors is destroyed on its side. All names are free before
// that: who hears of one of a group may submit all of it again at once.
void ProgressEngine::conclude_all(std::span<Entry> entries, const Status& status) {
  for (Entry& entry : entries) NamesInFlight::free(entry);
  for (Entry& entry : entries) {
    // The contribution of a joined rank has no name here, nobody waits for it, and nobody else knows its
    // memory.
    if (entry.joined) continue;
    conclude(entry, status);
    entry.shared_request.reset();
    released_.push_back(std::move(entry.handle));
  }
}

// The job cannot go on: everything this rank has ends with the reason, and nothing new is taken.
void ProgressEngine::complete_all(const Status& status) {
  failed_ = true;
  shared_.queue.close(status);  // whoever sees a device end by it knows why
  for (const std::unique_ptr<Backend>& backend : components_.backends) backend->tend(true);
  works_.end(status);
  std::vector<Entry> waiting = pending_.take_all();
  complete(waiting, status);
  std::vector<Entry> entries;
  shared_.queue.take(entries);
  conclude_all(entries, status);
  shared_.released.add(released_);
}

// This rank cannot carry out that Plan.
void ProgressEngine::abort(const Plan& plan, const WorkFailure& failure) {
  const Request& first = *plan.tensors.front().request;
  // A front end that signs requests gives no names to programs.
  std::string whom = first.signature == 0 ? title(first) : std::string(to_string(first.operation));
  if (plan.tensors.size() > 1) whom += fmt::format(", fused with {} others,", plan.tensors.size() - 1);
  std::string_view remedy =
      "Only this operation has failed: free memory there, or ask for less, and submit it again.";
  if (failure.is_mismatch) {
    remedy = "Only this operation has failed: call it with sizes that fit together on all ranks.";
  } else if (plan.capture != 0) {
    remedy = "Only this capture has failed: mend that, and capture again on all ranks.";
  }
  std::string words = fmt::format("{} failed on rank {} ({}): {}. {}", whom, components_.rank,
                                  job_.process_of(components_.rank), failure.what, remedy);
  negotiator_->abort(plan.number, failure.is_mismatch ? Status::mismatch(std::move(words))
                                                      : Status::backend_error(std::move(words)));
}

// If even telling the others fails, this rank ends its operations itself.
void ProgressEngine::fail(const std::string& reason) {
  const bool again = !negotiator_->failure().ok();
  negotiator_->fail(Status::backend_error(fmt::format("rank {} failed: {}", components_.rank, reason)));
  if (again) complete_all(negotiator_->failure());
}

void ProgressEngine::report_lost(Rank rank) {
  const std::string process = job_.process_of(rank);
  const std::string end = lost_.end_of(rank, process, shared_.heartbeat);
  negotiator_->fail(Status::peer_lost(fmt::format(
      "rank {} ({}) is lost: its process {}. {}", rank, process, end,
      components_.elastic ? "In elastic.run() the others go on." : "The job cannot go on; start it again.")));
}

// Returns this rank's own answer about an operation that others wait for.
StallInspector::OwnState ProgressEngine::own_state(const Asked& asked) const {
  const auto& [key, plan] = asked;
  if (plan > 0) {
    const std::optional<std::string_view> phase = works_.phase_of(plan);
    if (!phase) return {};
    Time moved{};
    works_.for_unmoved([&](const Plan& each, Time since) { moved = each.number == plan ? since : moved; });
    return {true, true, moved, fmt::format("{}: {}", job_.process_of(components_.rank), *phase)};
  }
  const ProcessSets::View* view = negotiator_->sets().find(key.process_set);
  if (view == nullptr || !view->members->contains(components_.rank)) return {};
  const std::string first = pending_.first_of_group(key);
  std::string words = first.empty() ? shared_.observer.recorder().summary()
                                    : fmt::format("has it in flight in the group of '{}'", first);
  TrainingRecord& record = TrainingRecord::of_process();
  if (const std::string pause = record.pause_in_words(); !pause.empty()) words += fmt::format(": {}", pause);
  const bool waiting = pending_.contains(key) && first.empty();
  return {true,
          waiting || pending_.joined(key.process_set),
          {},
          fmt::format("{}: {}", job_.process_of(components_.rank), words),
          pending_.empty() && record.pauses(components_.config.stall_check_time)};
}

}  // namespace rueda
