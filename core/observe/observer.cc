// SPDX-License-Identifier: Apache-2.0
#include "core/observe/observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/control/messages/message_pair.h"

namespace rueda {
namespace {

// Two sets may use one name. Good until the end of the statement: made in `room` where it is not the
// request's own.
const std::string& shown_name(const Request& request, std::string&& room = {}) {
  if (request.process_set == kWorld) return request.name;
  if (const std::optional<MessagePair> pair = MessagePair::of(request.process_set))
    return room = fmt::format("{} (rank {} to rank {})", request.name, pair->source, pair->destination);
  return room = fmt::format("{} (process set {})", request.name, request.process_set);
}

}  // namespace

void Observer::begin(const TraceIdentity& identity, const TuningParameters& parameters) {
  metrics_.begin(identity.rank, identity.size, identity.host, parameters.fusion_threshold);
  // Another group of ranks may have another rank 0.
  TrainingRecord& record = TrainingRecord::of_process();
  if (routes_.begin(record, parameters)) record.set_clock_offset(identity.clock_offset_ns);
  timeline_.set_identity(identity);
}

Flight Observer::submitted(const Request& request, Time now) {
  const Flight flight = recorder_.submitted(shown_name(request), request, monotonic_ns(now));
  metrics_.last_submission.set(static_cast<std::uint64_t>(flight.submitted_ns));
  if (!timeline_.tracing()) return flight;
  TraceEvent event;
  event.kind = TraceEvent::Kind::submitted;
  event.operation = request.operation;
  event.time_ns = flight.submitted_ns;
  event.ticket = flight.ticket;
  event.bytes = flight.bytes;
  event.set_name(shown_name(request));
  timeline_.push(event);
  return flight;
}

void Observer::planned(const Plan& plan, Time now) {
  planned_ns_ = monotonic_ns(now);
  if (plan.status.ok()) runs_.push_back({plan.number, planned_ns_});
}

void Observer::planned(const Plan& plan, const Flight& flight) {
  recorder_.planned(flight, plan.number);
  metrics_.last_plan.set(static_cast<std::uint64_t>(planned_ns_));
  metrics_.negotiation.add(planned_ns_ - flight.submitted_ns);
  if (!timeline_.tracing()) return;
  TraceEvent event;
  event.kind = TraceEvent::Kind::planned;
  event.time_ns = planned_ns_;
  event.ticket = flight.ticket;
  event.plan = plan.number;
  timeline_.push(event);
}

std::deque<Observer::Run>::iterator Observer::find(const Plan& plan) {
  return std::ranges::find(runs_, plan.number, &Run::number);
}

void Observer::started(const Plan& plan, Time now) {
  started_ns_ = monotonic_ns(now);
  metrics_.plan_started(plan.tensors.size(), plan.buffer_bytes);
  // Plans start in order: an earlier one that has not started here does not concern this rank.
  auto run = runs_.begin();
  while (run != runs_.end() && run->number < plan.number)
    run = run->started_ns == 0 ? runs_.erase(run) : run + 1;
  if (run == runs_.end() || run->number != plan.number) return;
  run->started_ns = started_ns_;
  metrics_.waiting.add(started_ns_ - run->planned_ns);
}

void Observer::started(const Flight& flight) { recorder_.started(flight, started_ns_); }

void Observer::doing(const Plan& plan, std::string_view phase) {
  recorder_.doing(phase);
  if (!timeline_.tracing()) return;
  const auto run = find(plan);
  if (run == runs_.end() || run->phase == phase) return;
  run->phase = phase;
  TraceEvent event;
  event.kind = TraceEvent::Kind::phase;
  event.time_ns = monotonic_ns();
  event.plan = plan.number;
  event.phase = phase;
  timeline_.push(event);
}

void Observer::finished(const Plan& plan) { end(plan); }

void Observer::finished(const Plan& plan, const EndedPlan& how) {
  EndedPlan ended = how;
  ended.nanoseconds = end(plan);
  ended.operation = plan.operation;
  ended.dtype = plan.dtype;
  ended.tensors = plan.tensors.size();
  routes_.count(ended);
}

// Returns the nanoseconds of its Work.
std::int64_t Observer::end(const Plan& plan) {
  recorder_.doing("between operations");
  metrics_.plan_ended();
  const auto run = find(plan);
  if (run == runs_.end()) return 0;
  const std::int64_t took = monotonic_ns() - run->started_ns;
  metrics_.data.add(took);
  runs_.erase(run);
  return took;
}

void Observer::completed(const Request& request, const Flight& flight, bool ok) {
  recorder_.completed(flight, ok);
  metrics_.completed(request.operation, flight.bytes, ok);
  if (!timeline_.tracing()) return;
  TraceEvent event;
  event.kind = TraceEvent::Kind::ended;
  event.time_ns = monotonic_ns();
  event.ticket = flight.ticket;
  event.ok = ok;
  timeline_.push(event);
}

void Observer::ended(const Status& status) {
  stalled({});
  failed(status);
}

// The launcher tells of lost ranks. A rank that has shut down without an operation of others is no loss.
void Observer::failed(const Status& status) {
  const bool is_failure = status.code == StatusCode::mismatch ||
                          status.code == StatusCode::invalid_argument || status.code == StatusCode::stalled ||
                          status.code == StatusCode::shut_down || status.code == StatusCode::backend_error;
  if (is_failure) TrainingRecord::of_process().note_failure(status.message);
  if (status.code == StatusCode::peer_lost) TrainingRecord::of_process().note_loss();
}

void Observer::stalled(std::string_view report) {
  if (report == told_stall_) return;
  told_stall_ = report;
  TrainingRecord::of_process().note_stall(report);
}

void Observer::agreed(Negotiator& negotiator) {
  const auto [hits, misses] = negotiator.cache_use();
  metrics_.cache_hits.add(hits - std::exchange(cache_hits_, hits));
  metrics_.cache_misses.add(misses - std::exchange(cache_misses_, misses));
  for (const Negotiator::LastOne& last : negotiator.take_last_ones())
    metrics_.waited_for(last.rank, std::chrono::duration<double>(last.after).count());
  Autotuner* tuner = negotiator.tuner();
  if (tuner == nullptr) return;
  const TunerNews news = tuner->take_news();
  metrics_.use(news.parameters);
  routes_.heard(news);
  for (const TuningRecord& record : news.records) tuning_log_.write(record);
}

void Observer::turned() {
  if (!timeline_.tracing() || !timeline_.marks_cycles()) return;
  TraceEvent event;
  event.kind = TraceEvent::Kind::cycle;
  event.time_ns = monotonic_ns();
  timeline_.push(event);
}

MetricsSnapshot Observer::metrics() const {
  MetricsSnapshot snapshot = metrics_.snapshot();
  snapshot.timeline_events_lost = timeline_.lost();
  snapshot.clock_offset_ns = timeline_.identity().clock_offset_ns;
  return snapshot;
}

}  // namespace rueda
