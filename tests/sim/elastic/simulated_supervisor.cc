// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/elastic/simulated_supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/sim/simulated_network.h"
#include "tests/sim/simulated_start.h"

namespace rueda {
namespace {

constexpr int kKilled = 9;

}  // namespace

SimulatedSupervisor::SimulatedSupervisor(EventQueue& clock, const SupervisorCosts& costs,
                                         const Membership::Limits& limits, Rank first,
                                         std::vector<std::vector<Worker>> workers, Tell tell)
    : clock_(clock), costs_(costs), membership_(limits, first), tell_(std::move(tell)) {
  for (std::vector<Worker>& each : workers) agents_.push_back({.workers = std::move(each)});
  for (Worker worker = 0; worker < first; ++worker) {
    membership_.formed(worker, 0);
    membership_.has_state(worker);
  }
}

template <class Call>
auto SimulatedSupervisor::timed(Call call) {
  struct Watch {
    std::chrono::duration<double>& sum;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    ~Watch() { sum += std::chrono::steady_clock::now() - begin; }
  } watch{membership_time_};
  return call();
}

void SimulatedSupervisor::hear(int host, const agents::Message& message) {
  Agent& from = agent(host);
  if (from.ended) return;
  if (from.waiting.empty()) ready_.push_back(host);
  from.waiting.push_back(agents::encode(message));
  begin_turn();
}

void SimulatedSupervisor::hear_end(int host) {
  if (agent(host).waiting.empty()) ready_.push_back(host);
  agent(host).ended = true;
  begin_turn();
}

void SimulatedSupervisor::begin_turn() {
  if (!std::exchange(turn_is_due_, true)) clock_.at(free_at_, [this] { turn(); });
}

// All is read before any of it is obeyed.
void SimulatedSupervisor::turn() {
  turn_is_due_ = false;
  free_at_ = std::max(free_at_, clock_.now());
  std::vector<std::pair<int, std::vector<agents::Message>>> heard;
  for (const int host : std::exchange(ready_, {})) heard.emplace_back(host, take(agent(host), host));
  for (const auto& [host, messages] : heard)
    for (const agents::Message& message : messages) obey(agent(host), message);
  act();
}

// The end of an agent is that of its workers.
std::vector<agents::Message> SimulatedSupervisor::take(Agent& agent, int host) {
  std::vector<agents::Message> messages;
  std::uint32_t cost = 0;
  for (const Bytes& bytes : std::exchange(agent.waiting, {})) {
    free_at_ += costs_.message + transfer_time(bytes.size(), costs_.gigabits);
    received_.add(bytes.size());
    cost += static_cast<std::uint32_t>(agents::cost_of(bytes));
    std::optional<agents::Message> message = agents::decode(bytes);
    if (!message) throw std::runtime_error("an agent says nonsense");
    messages.push_back(std::move(*message));
  }
  if (agent.ended) {
    agent.gone = true;
    for (const Worker worker : agent.workers) messages.emplace_back(agents::Ended{worker, kKilled});
  } else {
    tell(host, std::make_shared<const Bytes>(agents::encode(agents::Credit{cost})));
  }
  return messages;
}

void SimulatedSupervisor::obey(Agent& agent, const agents::Message& message) {
  if (const auto* ended = std::get_if<agents::Ended>(&message)) {
    note_lost(agent, ended->rank);
  } else if (const auto* state = std::get_if<agents::WorkerState>(&message)) {
    hear(*state);
  } else if (const auto* put = std::get_if<agents::Put>(&message)) {
    tell_all(*put);
  } else {
    throw std::runtime_error("an agent says what no agent of an elastic job says here");
  }
}

void SimulatedSupervisor::note_lost(Agent& agent, Worker worker) {
  if (std::erase(agent.workers, worker) == 0) return;
  timed([&] { membership_.lost(worker); });
  const std::ptrdiff_t host = &agent - agents_.data();
  tell_all(
      agents::PeerEnded{worker, fmt::format("rank {} (process {} on host{}) was killed by signal {} (Killed)",
                                            worker, 10'000 + worker, host, kKilled)});
}

void SimulatedSupervisor::hear(const agents::WorkerState& state) {
  using Kind = agents::WorkerState::Kind;
  const Time now = time_of(free_at_);
  timed([&] {
    switch (state.kind) {
      case Kind::fresh: return membership_.ready(state.worker, {}, now);
      case Kind::ready: return membership_.ready(state.worker, state.generation, now);
      case Kind::formed: return membership_.formed(state.worker, state.generation);
      case Kind::has_state: return membership_.has_state(state.worker);
    }
  });
}

void SimulatedSupervisor::act() {
  const Time now = time_of(free_at_);
  const auto next = timed([&] { return membership_.decide(now); });
  if (!membership_.failure().empty())
    throw std::runtime_error("the job cannot go on: " + membership_.failure());
  if (next) {
    decided_ = free_at_;
    tell_all(agents::NewGeneration{*next});
  }
  if (membership_.change_due().joiners != told_of_joiners_) {
    told_of_joiners_ = !told_of_joiners_;
    tell_all(agents::ChangeDue{told_of_joiners_, false});
  }
  if (const RankSet silent = membership_.take_silent(now); !silent.empty())
    throw std::runtime_error(fmt::format("{} of the workers say nothing", silent.count()));
  const std::optional<Time> due = membership_.due();
  if (!due || *due == wakes_at_) return;
  wakes_at_ = *due;
  clock_.at(microseconds_of(*due) + 1, [this] { begin_turn(); });
}

void SimulatedSupervisor::tell(int host, const std::shared_ptr<const Bytes>& message) {
  if (agent(host).gone) return;
  free_at_ += costs_.message + transfer_time(message->size(), costs_.gigabits);
  sent_.add(message->size());
  tell_(host, message, free_at_ + costs_.hop);
}

void SimulatedSupervisor::tell_all(const agents::Message& message) {
  const auto bytes = std::make_shared<const Bytes>(agents::encode(message));
  for (std::size_t host = 0; host < agents_.size(); ++host) tell(static_cast<int>(host), bytes);
}

}  // namespace rueda
