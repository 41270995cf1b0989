// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/elastic/simulated_workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <utility>

namespace rueda {
namespace {

using State = SimulatedProcess::State;

constexpr double kAskAgain = 500e3, kAskAgainLater = 8e6;  // as ElasticWorker has them
constexpr double kLongestPause = 250e3;                    // as RootFinder has it
constexpr std::size_t kLongestPacket = 32 << 10;           // as RankChannel and AgentLine have it
constexpr std::size_t kAddressBytes = 150;                 // of a rank with two addresses
constexpr std::string_view kRootKey = "rueda-root-generation-";

std::string name_of_host(int host) { return "host" + std::to_string(host); }

}  // namespace

SimulatedWorkers::SimulatedWorkers(EventQueue& clock, const ClusterShape& shape, const StartCosts& start,
                                   const SupervisorCosts& costs, const WorkerHabits& habits)
    : clock_(clock),
      shape_(shape),
      start_costs_(start),
      costs_(costs),
      habits_(habits),
      random_(habits.seed) {
  const auto first = std::make_shared<const Generation>(Generation{0, RankSet(0, shape.ranks)});
  for (Worker worker = 0; worker < shape.ranks; ++worker) {
    const int host = worker / shape.ranks_per_host;
    if (std::cmp_equal(host, agents_.size())) agents_.push_back({.newest = first});
    agents_.back().workers.push_back(worker);
    processes_.push_back({.host = host, .tried = 0, .mine = first, .heard = first});
  }
}

std::vector<std::vector<Worker>> SimulatedWorkers::by_host() const {
  std::vector<std::vector<Worker>> all;
  for (const Agent& each : agents_) all.push_back(each.workers);
  return all;
}

// --- What happens to them.

void SimulatedWorkers::lose(Worker worker) {
  SimulatedProcess& lost = process(worker);
  if (lost.state == State::dead) return;
  give_up_start(worker);
  lost.state = State::dead;
  std::erase(agent(lost.host).workers, worker);
  clock_.at(clock_.now() + costs_.hop, [this, worker, host = lost.host] {
    tell_supervisor(host, agents::Ended{worker, 9});
  });
}

void SimulatedWorkers::lose_host(int host) {
  for (const Worker worker : std::exchange(agent(host).workers, {})) {
    give_up_start(worker);
    process(worker).state = State::dead;
  }
  agent(host).gone = true;
  clock_.at(clock_.now() + costs_.hop, [this, host] { supervisor_->hear_end(host); });
}

void SimulatedWorkers::join(int host) {
  const auto worker = static_cast<Worker>(processes_.size());
  processes_.push_back({.state = State::leaving, .host = host});
  agent(host).workers.push_back(worker);
  supervisor_->add(host, worker);
  call_init(worker);
}

// --- Their agents.

double SimulatedWorkers::busy(Agent& agent) {
  return agent.free_at = std::max(agent.free_at, clock_.now()) + costs_.message;
}

void SimulatedWorkers::tell_supervisor(int host, const agents::Message& message) {
  if (agent(host).gone) return;
  clock_.at(busy(agent(host)) + costs_.hop, [this, host, message] { supervisor_->hear(host, message); });
}

void SimulatedWorkers::tell_agent(int host, const Bytes& bytes) {
  Agent& here = agent(host);
  if (here.gone) return;
  busy(here);
  const std::optional<agents::Message> message = agents::decode(bytes);
  if (!message) throw std::runtime_error("ruedarun says nonsense");
  if (const auto* change = std::get_if<agents::NewGeneration>(&*message)) {
    pass_on(here, change->generation);
  } else if (const auto* put = std::get_if<agents::Put>(&*message)) {
    pass_root_on(here, *put);
  } else if (const auto* lost = std::get_if<agents::PeerEnded>(&*message)) {
    for (const Worker worker : here.workers) {
      const double time = busy(here);
      const SimulatedProcess& other = process(worker);
      const bool is_busy = other.state == State::inside || other.state == State::forming;
      if (is_busy && other.mine->workers.contains(lost->rank))  // all others hear nothing new
        clock_.at(time, [this, worker, rank = lost->rank] { hear_of_loss(worker, rank); });
    }
  } else if (const auto* due = std::get_if<agents::ChangeDue>(&*message)) {
    for (const Worker worker : here.workers) {
      const double time = busy(here);
      if (due->joiners) clock_.at(time, [this, worker] { hear_of_joiners(worker); });
    }
  }
}

// Agents share what they keep of it.
void SimulatedWorkers::pass_on(Agent& agent, const Generation& generation) {
  const std::string packet = fmt::format("generation {}.", to_text(generation));
  seen_.longest_text = std::max<std::uint64_t>(seen_.longest_text, packet.size());
  if (packet.size() > kLongestPacket)
    throw std::runtime_error(
        fmt::format("generation {} has {} ranges of workers, {} bytes, and a packet to a rank holds {}: no "
                    "rank hears of it",
                    generation.number, generation.workers.ranges().size(), packet.size(), kLongestPacket));
  if (!newest_ || *newest_ != generation) newest_ = std::make_shared<const Generation>(generation);
  agent.newest = newest_;
  for (const Worker worker : agent.workers)
    clock_.at(busy(agent), [this, worker, told = newest_] { hear(worker, told); });
}

void SimulatedWorkers::pass_root_on(Agent& agent, const agents::Put& put) {
  std::uint64_t generation = 0;
  const std::string_view digits = std::string_view(put.key).substr(kRootKey.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), generation);
  if (put.value.empty()) return;
  agent.roots.insert(generation);
  for (const Worker worker : agent.workers) {
    const SimulatedProcess& other = process(worker);
    if (other.state == State::forming && *other.tried == generation && !is_rank_0(other, worker))
      clock_.at(busy(agent), [this, worker, generation] { find_root(worker, generation); });
  }
}

// --- What they do.

void SimulatedWorkers::hear_of_loss(Worker worker, Worker lost) {
  const SimulatedProcess& own = process(worker);
  const bool is_busy = own.state == State::inside || own.state == State::forming;
  if (!is_busy || !own.mine->workers.contains(lost)) return;
  leave(worker, own.state == State::inside ? within(habits_.skew) : 0);
}

// It leaves at its next commit.
void SimulatedWorkers::hear_of_joiners(Worker worker) {
  if (process(worker).state == State::inside) leave(worker, within(habits_.commit));
}

void SimulatedWorkers::hear(Worker worker, const SharedGeneration& generation) {
  SimulatedProcess& own = process(worker);
  if (own.heard && own.heard->number >= generation->number) return;
  own.heard = generation;
  switch (own.state) {
    case State::waiting: return form_or_wait(worker);
    case State::forming: return leave(worker, 0);
    case State::inside: return hear_of_joiners(worker);
    case State::leaving:
    case State::dead: return;
  }
}

void SimulatedWorkers::leave(Worker worker, double delay) {
  SimulatedProcess& own = process(worker);
  if (own.state == State::inside && own.mine->number == 0) seen_.all_broken = clock_.now();
  give_up_start(worker);
  own.state = State::leaving;
  clock_.at(clock_.now() + delay, [this, worker] { call_init(worker); });
}

void SimulatedWorkers::call_init(Worker worker) {
  SimulatedProcess& own = process(worker);
  if (own.state != State::leaving) return;
  own.state = State::waiting;
  ++own.calls;
  ask(worker, kAskAgain);
  form_or_wait(worker);
}

// By its agent, which also tells it the newest generation again.
void SimulatedWorkers::ask(Worker worker, double pause) {
  using Kind = agents::WorkerState::Kind;
  const SimulatedProcess& own = process(worker);
  Agent& here = agent(own.host);
  tell_supervisor(own.host,
                  agents::WorkerState{worker, own.tried ? Kind::ready : Kind::fresh, own.tried.value_or(0)});
  if (here.newest) clock_.at(busy(here), [this, worker, told = here.newest] { hear(worker, told); });
  clock_.at(clock_.now() + pause, [this, worker, pause, calls = own.calls] {
    if (process(worker).state == State::waiting && process(worker).calls == calls)
      ask(worker, std::min(2 * pause, kAskAgainLater));
  });
}

void SimulatedWorkers::form_or_wait(Worker worker) {
  const SimulatedProcess& own = process(worker);
  const bool is_new = own.heard && (!own.tried || own.heard->number > *own.tried);
  if (is_new && own.heard->workers.contains(worker)) form(worker);
}

void SimulatedWorkers::form(Worker worker) {
  SimulatedProcess& own = process(worker);
  own.state = State::forming;
  own.mine = own.heard;
  own.tried = own.mine->number;
  own.since = clock_.now();
  if (is_rank_0(own, worker)) {
    std::vector<std::string> hosts;
    for (const Worker each : own.mine->by_rank()) hosts.push_back(name_of_host(process(each).host));
    starts_[*own.tried] = std::make_unique<RunningStart>(
        RunningStart{own.mine, SimulatedStart(std::move(hosts), shape_, start_costs_)});
    tell_supervisor(own.host,
                    agents::Put{fmt::format("{}{}", kRootKey, *own.tried), std::string(kAddressBytes, 'a')});
    serve(*own.tried);
  } else if (agent(own.host).roots.contains(*own.tried)) {
    find_root(worker, *own.tried);
  }
}

// It has waited for this, and looks again after a quarter of that time.
void SimulatedWorkers::find_root(Worker worker, std::uint64_t generation) {
  const double pause = std::min((clock_.now() - process(worker).since) / 4, kLongestPause);
  clock_.at(clock_.now() + pause, [this, worker, generation] {
    const SimulatedProcess& own = process(worker);
    const auto found = starts_.find(generation);
    if (own.state != State::forming || own.tried != generation || found == starts_.end()) return;
    found->second->start.come(own.mine->workers.index_of(worker), clock_.now());
    if (!found->second->busy) serve(generation);
  });
}

// Rank 0 takes one connection after another.
void SimulatedWorkers::serve(std::uint64_t generation) {
  const auto found = starts_.find(generation);
  if (found == starts_.end()) return;
  const std::optional<double> free_at = found->second->start.hear_next();
  found->second->busy = free_at.has_value();
  if (free_at) {
    clock_.at(*free_at, [this, generation] { serve(generation); });
  } else if (found->second->start.has_heard_all()) {
    begin_work(generation);
  }
}

void SimulatedWorkers::begin_work(std::uint64_t generation) {
  const auto found = starts_.find(generation);
  const std::vector<double> told = found->second->start.tell_all();
  const std::vector<Worker> workers = found->second->generation->by_rank();
  count(found->second->start.result());
  starts_.erase(found);
  for (std::size_t rank = 0; rank < workers.size(); ++rank)
    clock_.at(told[rank], [this, worker = workers[rank], generation] { enter(worker, generation); });
}

void SimulatedWorkers::enter(Worker worker, std::uint64_t generation) {
  SimulatedProcess& own = process(worker);
  if (own.state != State::forming || *own.tried != generation) return;
  own.state = State::inside;
  own.since = clock_.now();
  if (is_rank_0(own, worker) && own.mine->workers.count() > 1)
    tell_supervisor(own.host, agents::Put{fmt::format("{}{}", kRootKey, generation), ""});
  using Kind = agents::WorkerState::Kind;
  for (const Kind kind : {Kind::formed, Kind::has_state})
    tell_supervisor(own.host, agents::WorkerState{worker, kind, kind == Kind::formed ? generation : 0});
}

bool SimulatedWorkers::is_rank_0(const SimulatedProcess& process, Worker worker) const {
  return process.mine->workers.first() == worker;
}

// The start ends with rank 0's part in it.
void SimulatedWorkers::give_up_start(Worker worker) {
  const SimulatedProcess& own = process(worker);
  if (own.state != State::forming || !is_rank_0(own, worker)) return;
  const auto found = starts_.find(*own.tried);
  if (found == starts_.end()) return;
  count(found->second->start.result());
  starts_.erase(found);
}

// Each connection brings one message, and is answered by one.
void SimulatedWorkers::count(const StartResult& start) {
  seen_.root_received.messages += start.connections;
  seen_.root_received.bytes += start.root_received;
  if (start.root_sent > 0) seen_.root_sent.messages += start.connections;
  seen_.root_sent.bytes += start.root_sent;
}

}  // namespace rueda
