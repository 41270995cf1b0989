// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/elastic_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/time.h"

namespace rueda {
namespace {

Membership::Limits limits_of(const ElasticOptions& options) {
  return {.least = options.least,
          .most = options.most,
          .patience = options.timeout,
          .resets = options.reset_limit};
}

// "rank 2 (", "rank 2 (worker 5, ": the begin of its name, which its process follows.
std::string name_of(Worker worker, const Generation& generation) {
  if (!generation.workers.contains(worker)) return fmt::format("worker {} (", worker);
  const Rank rank = generation.workers.index_of(worker);
  return rank == worker ? fmt::format("rank {} (", rank) : fmt::format("rank {} (worker {}, ", rank, worker);
}

std::string workers_in_words(const RankSet& workers) {
  if (workers.count() == 1) return fmt::format("worker {} has", workers.first());
  return fmt::format("{} workers have", workers.count());
}

std::string count_of(Rank ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

}  // namespace

ElasticJob::ElasticJob(const LaunchOptions& options, const std::vector<HostRanks>& hosts,
                       const std::vector<HostRanks>& slots, JobRecord& job, AgentServer& agents,
                       JobOutput& output, JobEnd& end)
    : processes_(options.elastic.most + options.elastic.spares),
      hosts_(hosts),
      job_(job),
      agents_(agents),
      output_(output),
      end_(end),
      membership_(limits_of(options.elastic), options.ranks),
      slots_(hosts, slots, options.ranks),
      known_(0, options.ranks) {}

void ElasticJob::welcome(int host) {
  agents_.tell(host, agents::NewGeneration{membership_.generation()});
  slots_.open(host);
}

void ElasticJob::hear(const agents::WorkerState& state) {
  if (is_frozen()) return;
  switch (state.kind) {
    case agents::WorkerState::Kind::fresh: return membership_.ready(state.worker, {}, clock_now());
    case agents::WorkerState::Kind::ready:
      return membership_.ready(state.worker, state.generation, clock_now());
    case agents::WorkerState::Kind::formed: return membership_.formed(state.worker, state.generation);
    case agents::WorkerState::Kind::has_state: return membership_.has_state(state.worker);
  }
}

void ElasticJob::ended(Worker worker, bool failed) {
  if (is_frozen()) return failed ? end_.fail(worker) : void();
  slots_.free_slot_of(worker, membership_.has_taken_part(worker));
  if (!failed) {
    membership_.finished(worker);
    if (membership_.is_over()) end_.end_well();
    return;
  }
  const std::string words = job_.words_for(worker, name_of(worker, membership_.generation()));
  membership_.lost(worker);
  lost_.push_back(words);
  if (!cause_) cause_ = worker;
  agents_.tell_all(agents::PeerEnded{worker, words});
}

void ElasticJob::cannot_start(int host, const std::string& why) {
  for (int worker; (worker = job_.unstarted_on(host)) >= 0;) {
    job_.note_cannot_start(worker);
    slots_.free_slot_of(worker, false);
    membership_.lost(worker);
    output_.say(fmt::format("ruedarun: worker {} cannot be started: {}", worker, why));
  }
}

void ElasticJob::act(Clock::time_point now) {
  if (is_frozen()) return;
  const std::optional<Generation> next = membership_.decide(now);
  if (membership_.is_short() && nobody_can_come()) membership_.give_up("too few ranks are left");
  if (!membership_.failure().empty()) return give_up();
  if (next) agents_.tell_all(agents::NewGeneration{*next});
  say_what_has_changed(next);
  if (membership_.has_formed() && !membership_.is_short()) cause_.reset();
  if (const bool wait = membership_.joiners_wait(); wait != told_of_joiners_) {
    told_of_joiners_ = wait;
    agents_.tell_all(agents::JoinersWait{wait});
  }
  for (const Worker worker : Generation{0, membership_.take_silent(now)}.by_rank()) end_silent(worker);
  start_workers();
}

// The end of the job is asked for, or has begun: ranks end in their own time.
bool ElasticJob::is_frozen() const { return end_.has_begun() || end_.signal() != 0 || end_.is_only_asked(); }

// No process runs that could join, and none can be started.
bool ElasticJob::nobody_can_come() {
  return slots_.taken() <= membership_.count() && slots_.free_one() == nullptr;
}

void ElasticJob::give_up() {
  say_what_has_changed({});
  output_.say(fmt::format("ruedarun: the job cannot go on: {}", membership_.failure()));
  end_.fail_for(cause_);
}

// Others wait for it. Its agent tells of its end, which is a loss as any other.
void ElasticJob::end_silent(Worker worker) {
  output_.say(fmt::format("ruedarun: {}{}) says nothing, and the others wait for it: it is ended",
                          name_of(worker, membership_.generation()), job_.place_of(worker)));
  agents_.tell(job_.host_of(worker), agents::EndWorker{worker});
}

void ElasticJob::say_what_has_changed(const std::optional<Generation>& next) {
  const std::string ranks = next ? count_of(next->workers.count()) : "";
  for (const std::string& words : lost_)
    output_.say(fmt::format("ruedarun: {}{}", words,
                            next                     ? "; going on with " + ranks
                            : membership_.is_short() ? "; waiting for others, since too few are left"
                                                     : ""));
  const RankSet joined = next ? next->workers - known_ : RankSet();
  if (!joined.empty())
    output_.say(fmt::format("ruedarun: {} joined; going on with {}", workers_in_words(joined), ranks));
  if (next && lost_.empty() && joined.empty())
    output_.say(fmt::format("ruedarun: the ranks form the job anew; going on with {}", ranks));
  known_.add(joined);
  lost_.clear();
}

// Those in place of lost ones wait until the others go on: if all ranks fail for the same reason, nothing is
// started for nothing.
void ElasticJob::start_workers() {
  if (!membership_.takes_more() || (!membership_.has_formed() && !membership_.is_short())) return;
  while (slots_.taken() < processes_) {
    WorkerSlots::Slot* slot = slots_.free_one();
    if (slot == nullptr) return;
    const HostRanks& host = hosts_[static_cast<std::size_t>(slot->host)];
    const int worker = job_.add(slot->host);
    slot->worker = worker;
    output_.add_rank(worker, host.host);
    agents_.tell(slot->host, agents::StartWorker{{.rank = worker,
                                                  .size = membership_.generation().workers.count() + 1,
                                                  .local_rank = slot->local_rank,
                                                  .local_size = static_cast<int>(host.places.size())}});
  }
}

}  // namespace rueda
