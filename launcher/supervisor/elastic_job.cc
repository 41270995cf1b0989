// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/elastic_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <system_error>
#include <utility>

#include "core/base/time.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

constexpr auto kUntilSpares = std::chrono::seconds(1);  // from a change of ranks
constexpr auto kTogether = std::chrono::seconds(2);     // that a worker waits for others which start with it

Membership::Limits limits_of(const ElasticOptions& options) {
  return {.least = options.least,
          .most = options.most,
          .timeout = options.timeout,
          .resets = options.reset_limit};
}

// Hosts of the start may have more ranks than they were given slots, as the user has asked for.
std::vector<HostSlots> slots_at_the_start(const LaunchOptions& options, const ElasticJob::Hosts& hosts) {
  const ElasticOptions& elastic = options.elastic;
  std::vector<HostSlots> listed = hosts.listed;
  if (listed.empty()) listed = {{hosts.placed.front().host, elastic.most + elastic.spares}};
  std::vector<HostSlots> slots;
  const int asked_for = options.ranks + (elastic.given.contains("--spares") ? elastic.spares : 0);
  for (const HostRanks& host : place_ranks(asked_for, listed, host_name()))
    slots.push_back({host.host, static_cast<int>(host.ranks.size())});
  std::map<std::string, int> named;
  for (const HostSlots& host : listed) named[host.name] += host.slots;
  for (const HostSlots& host : listed) {
    const auto known = std::ranges::find(slots, host.name, &HostSlots::name);
    if (known == slots.end())
      slots.push_back({host.name, named[host.name]});
    else
      known->slots = std::max(known->slots, named[host.name]);
  }
  return slots;
}

// "rank 2 (", "rank 2 (worker 5, ": the begin of its name, which its process follows.
std::string name_of(Worker worker, const Generation& generation) {
  if (!generation.workers.contains(worker)) return fmt::format("worker {} (", worker);
  const Rank rank = generation.workers.index_of(worker);
  return rank == worker ? fmt::format("rank {} (", rank) : fmt::format("rank {} (worker {}, ", rank, worker);
}

std::string words_for(const HostPool::Banned& banned, std::string_view why) {
  const std::string name = banned.local_rank ? fmt::format("slot {} of {}", *banned.local_rank, banned.host)
                                             : "the host " + banned.host;
  if (!banned.time)
    return fmt::format(
        "{} is not used again: {} (--blacklist-cooldown-range or --blacklist never would try it later)", name,
        why);
  const double seconds = std::chrono::duration<double>(*banned.time).count();
  return fmt::format("{} is not used for {:.1f} s: {}", name, seconds, why);
}

std::string workers_in_words(const RankSet& workers) {
  if (workers.count() == 1) return fmt::format("worker {} has", workers.first());
  return fmt::format("{} workers have", workers.count());
}

std::string count_of(int things, std::string_view name) {
  return fmt::format("{} {}{}", things, name, things == 1 ? "" : "s");
}

}  // namespace

ElasticJob::ElasticJob(const LaunchOptions& options, Hosts hosts, JobRecord& job, AgentServer& agents,
                       JobOutput& output, JobEnd& end)
    : options_(options),
      job_(job),
      agents_(agents),
      output_(output),
      end_(end),
      membership_(limits_of(options.elastic), options.ranks),
      hosts_(options.elastic.blacklist, options.elastic.cooldown, std::random_device{}()),
      discovery_(std::move(hosts.discovery)),
      start_agent_(std::move(hosts.start_agent)),
      start_timeout_(std::chrono::ceil<Clock::duration>(hosts.start_timeout)),
      news_{.known = RankSet(0, options.ranks)} {
  int number = 0;
  for (const HostRanks& host : hosts.placed) hosts_.begin(number++, host);
  static_cast<void>(hosts_.use(discovery_ ? hosts.listed : slots_at_the_start(options, hosts)));
}

// Tells a host's agent the present state: earlier messages reached nobody, as the agent was not there.
void ElasticJob::welcome(int host) {
  for (const Worker worker : Generation{0, membership_.retiring()}.by_rank())
    if (job_.host_of(worker) == host) agents_.tell(host, agents::Retire{worker});
  agents_.tell(host, agents::NewGeneration{membership_.generation()});
  hosts_.open(host);
}

void ElasticJob::hear(const agents::WorkerState& state) {
  if (is_frozen() || job_.has_ended(state.worker)) return;
  coming_.workers.remove(RankSet::of(state.worker));
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
  leaving_.erase(worker);
  coming_.workers.remove(RankSet::of(worker));
  if (failed) {
    free_slot_of(worker);
    return lose(worker);
  }
  hosts_.ended_well(worker);
  if (membership_.generation().workers.contains(worker))
    news_.over.push_back(fmt::format("{}{}) has ended with status 0",
                                     name_of(worker, membership_.generation()), job_.process_of(worker)));
  membership_.finished(worker);
  if (membership_.is_over()) end_.end_well();
}

std::string ElasticJob::end_in_words(Worker worker) const {
  return job_.words_for(worker, name_of(worker, membership_.generation()));
}

void ElasticJob::lose(Worker worker) {
  const std::string words = end_in_words(worker);
  membership_.lost(worker);
  news_.lost.push_back(words);
  if (!cause_) cause_ = worker;
  agents_.tell_all(agents::PeerEnded{worker, words});
}

// Of a worker that has failed.
void ElasticJob::free_slot_of(Worker worker) {
  const auto banned = hosts_.failed(worker, membership_.has_taken_part(worker), clock_now());
  const bool is_slot = banned && banned->local_rank;
  note_banned(banned, is_slot ? "its last worker did not take part" : "a worker has failed there");
}

// Notes a banned host or slot for the user. A ban means nothing if nobody joins any more.
void ElasticJob::note_banned(const std::optional<HostPool::Banned>& banned, std::string_view why) {
  if (banned && !is_frozen() && membership_.takes_more()) news_.blacklist.push_back(words_for(*banned, why));
}

// Of a host of the start the other ranks are told by the next generation.
std::vector<Worker> ElasticJob::cannot_start(int host, const std::string& why) {
  std::vector<Worker> never_started;
  for (int worker; (worker = job_.unstarted_on(host)) >= 0;) {
    job_.note_cannot_start(worker);
    agents_.tell(host, agents::EndWorker{worker, false});  // another one of these may have started
    coming_.workers.remove(RankSet::of(worker));
    free_slot_of(worker);
    membership_.lost(worker);
    if (!cause_) cause_ = worker;
    output_.say(fmt::format("ruedarun: worker {} cannot be started: {}", worker, why));
    never_started.push_back(worker);
  }
  return never_started;
}

int ElasticJob::workers_wanted() const {
  return options_.elastic.most + (coming_.spares ? 0 : options_.elastic.spares);
}

// A script may name hosts that do not answer; the user's own list may not.
bool ElasticJob::does_without(int host) const {
  return discovery_ || job_.unstarted_on(host) >= options_.ranks || !job_.has_ranks(host);
}

void ElasticJob::host_gone(int host) {
  if (!hosts_.is_closed(host) && !is_frozen() && !job_.has_ranks(host))
    output_.say(fmt::format("ruedarun: the host {} does not come", hosts_.name_of(host)));
  note_banned(hosts_.lose(host, clock_now()), "its agent has gone");
}

void ElasticJob::host_leaves(int host, const std::string& why) {
  if (is_frozen() || hosts_.is_closed(host)) return;
  output_.say(
      fmt::format("ruedarun: the host {} is to go ({}): its ranks leave the job", hosts_.name_of(host), why));
  retire(hosts_.close(host));
}

// Those that wait for their first generation are not missed.
void ElasticJob::retire(const std::vector<Worker>& workers) {
  for (const Worker worker : workers) {
    membership_.retire(worker);
    const bool is_member = membership_.generation().workers.contains(worker);
    if (is_member)
      agents_.tell(job_.host_of(worker), agents::Retire{worker});
    else if (!membership_.has_taken_part(worker))
      agents_.tell(job_.host_of(worker), agents::EndWorker{worker, false});
  }
}

void ElasticJob::act(Clock::time_point now) {
  if (is_frozen()) return;
  look_for_hosts(now);
  see_to_hosts(now);
  const RankSet before = membership_.generation().workers;
  const std::optional<Generation> next = membership_.decide(now);
  if (membership_.is_short() && nobody_can_come()) membership_.give_up("too few ranks are left");
  if (!membership_.failure().empty()) return give_up();
  if (next)
    tell_generation(*next, before, now);
  else
    say_what_has_changed({}, {});
  if (membership_.has_formed() && !membership_.is_short()) cause_.reset();
  if (coming_.spares && now >= *coming_.spares) coming_.spares.reset();
  tell_what_is_due(now);
  for (const Worker worker : Generation{0, membership_.take_silent(now)}.by_rank()) end_silent(worker);
  end_those_that_stay(now);
  start_agents(now);
  start_workers(now);
}

std::optional<ElasticJob::Clock::time_point> ElasticJob::next_time() const {
  if (is_frozen()) return std::nullopt;
  std::optional<Time> next = membership_.due();
  next = earlier(next, hosts_.next_time(clock_now()));
  if (const std::optional<Time> since = hosts_.starting_since())
    next = earlier(next, *since + start_timeout_);
  if (discovery_) next = earlier(next, discovery_->next_time());
  for (const auto& [worker, time] : leaving_) next = earlier(next, time);
  if (!news_.due.joiners) next = earlier(next, coming_.awaited);
  if (coming_.spares) next = earlier(next, *coming_.spares);
  return next;
}

// The end of the job is asked for, or has begun: ranks end in their own time.
bool ElasticJob::is_frozen() const { return end_.has_begun() || end_.signal() != 0 || end_.is_only_asked(); }

// No process runs that could join, and none can be started.
bool ElasticJob::nobody_can_come() const {
  return !discovery_ && hosts_.taken() <= membership_.count() && !hosts_.may_get_more();
}

void ElasticJob::give_up() {
  // A worker that fails before it has taken part would fail again in every slot.
  if (cause_ && !membership_.has_taken_part(*cause_)) news_.blacklist.clear();
  say_what_has_changed({}, {});
  output_.say(fmt::format("ruedarun: the job cannot go on: {}", membership_.failure()));
  end_.fail_for(cause_);
  end_.check_all_ended();
}

void ElasticJob::tell_generation(const Generation& next, const RankSet& before, Clock::time_point now) {
  agents_.tell_all(agents::NewGeneration{next});
  coming_.spares = now + kUntilSpares;
  const RankSet left = (before & membership_.retiring()) - next.workers;
  for (const Worker worker : Generation{0, left}.by_rank()) leaving_.emplace(worker, now + options_.grace);
  say_what_has_changed(next, left);
}

// Of two that start together the second would soon cost another generation.
bool ElasticJob::waits_for_more(Clock::time_point now) {
  if (coming_.workers.empty() || !membership_.change_due().joiners || news_.due.joiners) {
    coming_.awaited.reset();
    return false;
  }
  if (!coming_.awaited) coming_.awaited = now + kTogether;
  return now < *coming_.awaited;
}

void ElasticJob::tell_what_is_due(Clock::time_point now) {
  Membership::Due due = membership_.change_due();
  if (waits_for_more(now)) due.joiners = false;
  if (due == std::exchange(news_.due, due)) return;
  agents_.tell_all(agents::ChangeDue{due.joiners, due.leavers});
}

// Others wait for it. Its agent tells of its end, which is a loss as any other.
void ElasticJob::end_silent(Worker worker) {
  output_.say(fmt::format("ruedarun: {}{}) says nothing, and the others wait for it: it is ended",
                          name_of(worker, membership_.generation()), job_.process_of(worker)));
  agents_.tell(job_.host_of(worker), agents::EndWorker{worker});
}

void ElasticJob::end_those_that_stay(Clock::time_point now) {
  for (auto each = leaving_.begin(); each != leaving_.end();) {
    const auto [worker, time] = *each;
    if (time > now) {
      ++each;
      continue;
    }
    output_.say(fmt::format("ruedarun: worker {} ({}) has left the job and runs on: it is ended", worker,
                            job_.process_of(worker)));
    agents_.tell(job_.host_of(worker), agents::EndWorker{worker, false});
    each = leaving_.erase(each);
  }
}

void ElasticJob::say_what_has_changed(const std::optional<Generation>& next, const RankSet& left) {
  const std::string ranks = next ? count_of(next->workers.count(), "rank") : "";
  for (const std::string& words : news_.lost)
    output_.say(fmt::format("ruedarun: {}{}", words,
                            next                     ? "; going on with " + ranks
                            : membership_.is_short() ? "; waiting for others, since too few are left"
                                                     : ""));
  for (const std::string& words : std::exchange(news_.blacklist, {})) output_.say("ruedarun: " + words);
  const RankSet joined = next ? next->workers - news_.known : RankSet();
  if (next) {
    for (const std::string& words : std::exchange(news_.over, {}))
      output_.say(fmt::format("ruedarun: {}; nobody joins any more", words));
  }
  if (!left.empty())
    output_.say(fmt::format("ruedarun: {} left; going on with {}", workers_in_words(left), ranks));
  if (!joined.empty())
    output_.say(fmt::format("ruedarun: {} joined; going on with {}", workers_in_words(joined), ranks));
  if (next && news_.lost.empty() && joined.empty() && left.empty())
    output_.say(fmt::format("ruedarun: the ranks form the job anew; going on with {}", ranks));
  news_.known.add(joined);
  news_.lost.clear();
}

// A failure of the script is told once, as long as it stays the same.
void ElasticJob::look_for_hosts(Clock::time_point now) {
  if (!discovery_) return;
  discovery_->act(now);
  std::optional<HostDiscovery::Answer> answer = discovery_->take_answer();
  if (!answer) return;
  if (answer->failure.empty() && answer->hosts.empty())
    answer->failure = "the host discovery script names no host";
  if (answer->failure != std::exchange(news_.discovery_failure, answer->failure) && !answer->failure.empty())
    output_.say(fmt::format("ruedarun: {}; the hosts stay as they were", answer->failure));
  if (answer->failure.empty()) use_hosts(answer->hosts);
}

void ElasticJob::use_hosts(const std::vector<HostSlots>& hosts) {
  const HostPool::Change change = hosts_.use(hosts);
  for (const std::string& name : change.fresh)
    output_.say(fmt::format("ruedarun: the host {} has come", name));
  for (const std::string& name : change.left)
    output_.say(fmt::format("ruedarun: the host {} is to go (the script names it no more)", name));
  retire(change.leaving);
}

// Agents that do not come, hosts on the blacklist, and agents without anything to do.
void ElasticJob::see_to_hosts(Clock::time_point now) {
  for (const int host : hosts_.overdue(now, start_timeout_)) {
    output_.say(fmt::format("ruedarun: the agent on {} did not come within {:.0f} s", hosts_.name_of(host),
                            std::chrono::duration<double>(start_timeout_).count()));
    note_banned(hosts_.lose(host, now), "its agent did not come");
  }
  for (const Worker worker : hosts_.take_blacklisted()) {
    news_.blacklist.push_back(fmt::format("{}{}) is ended: another one has failed on its host",
                                          name_of(worker, membership_.generation()),
                                          job_.process_of(worker)));
    agents_.tell(job_.host_of(worker), agents::EndWorker{worker, false});
    membership_.lost(worker);
  }
  for (const int host : hosts_.take_released()) agents_.tell(host, agents::JobOver{});
}

// Workers in place of lost ones wait until the others go on: if all ranks fail for the same reason, nothing
// is started for nothing.
bool ElasticJob::wants_workers() const {
  return membership_.takes_more() && (membership_.has_formed() || membership_.is_short());
}

void ElasticJob::start_agents(Clock::time_point now) {
  if (!wants_workers()) return;
  while (const std::optional<std::string> host = hosts_.host_to_start(workers_wanted(), now)) {
    try {
      hosts_.starts(*host, start_agent_(*host), now);
    } catch (const std::system_error& error) {
      output_.say(fmt::format("ruedarun: the agent on {} cannot be started: {}", *host, error.what()));
      note_banned(hosts_.put_off(*host, now), "its agent cannot be started");
    }
  }
}

void ElasticJob::start_workers(Clock::time_point now) {
  while (wants_workers() && hosts_.staying() < workers_wanted()) {
    const std::optional<HostPool::Opening> opening = hosts_.opening(now);
    if (!opening) return;
    const int worker = job_.add_rank(opening->number);
    hosts_.fill(*opening, worker);
    coming_.workers.add(RankSet::of(worker));
    output_.add_rank(worker, opening->host);
    agents_.tell(opening->number, agents::StartWorker{{.rank = worker,
                                                       .size = hosts_.staying(),
                                                       .local_rank = opening->local_rank,
                                                       .local_size = opening->slots}});
  }
}

}  // namespace rueda
