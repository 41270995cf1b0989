// SPDX-License-Identifier: Apache-2.0
// ruedarun of an elastic job, on a simulated clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/bytes.h"
#include "core/control/membership/membership.h"
#include "launcher/protocol/agent_message.h"
#include "tests/sim/elastic/event_queue.h"

namespace rueda {

// Times in microseconds.
struct SupervisorCosts {
  double hop = 3.0;  // from a message's leaving to its arrival
  double message =
      5.0;  // that ruedarun or an agent is busy with sending or taking a message, cipher included
  double gigabits = 10;  // a second, in and out of a host
};

// Messages that a node has sent, or got, and their bytes.
struct Traffic {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  void add(std::uint64_t size) { ++messages, bytes += size; }
};

// Purpose: decides by the real Membership, and speaks in the real messages. As the real one it works in
// turns: it takes what has come from some agents, answers, and then makes the next generation if there is a
// reason. One connection for each host.
class SimulatedSupervisor {
 public:
  // Brings a message to the agent of a host, at that time.
  using Tell = std::function<void(int host, const std::shared_ptr<const Bytes>& message, double time)>;

  // The first generation has formed. `workers`: of each host. `clock` and `costs` outlive this.
  SimulatedSupervisor(EventQueue& clock, const SupervisorCosts& costs, const Membership::Limits& limits,
                      Rank first, std::vector<std::vector<Worker>> workers, Tell tell);

  // It comes by the connection of that host now.
  void hear(int host, const agents::Message& message);
  // A worker more, which has been started there.
  void add(int host, Worker worker) { agent(host).workers.push_back(worker); }
  // The connection of that host ends now.
  void hear_end(int host);

  const Membership& membership() const { return membership_; }
  double decided() const { return decided_; }  // when the newest generation was made
  const Traffic& received() const { return received_; }
  const Traffic& sent() const { return sent_; }
  // Seconds of the real clock that Membership has taken.
  double seconds_of_membership() const { return membership_time_.count(); }

 private:
  struct Agent {
    std::vector<Worker> workers;  // that have not ended
    std::deque<Bytes> waiting;    // messages that have come
    bool ended = false;           // after those
    bool gone = false;            // it is known that it has ended
  };

  Agent& agent(int host) { return agents_[static_cast<std::size_t>(host)]; }
  void begin_turn();
  void turn();
  std::vector<agents::Message> take(Agent& agent, int host);
  void obey(Agent& agent, const agents::Message& message);
  void note_lost(Agent& agent, Worker worker);
  void hear(const agents::WorkerState& state);
  void act();
  void tell(int host, const std::shared_ptr<const Bytes>& message);
  void tell_all(const agents::Message& message);
  template <class Call>
  auto timed(Call call);

  EventQueue& clock_;
  const SupervisorCosts& costs_;
  Membership membership_;
  const Tell tell_;
  std::vector<Agent> agents_;
  std::deque<int> ready_;  // hosts of which something waits, each once
  double free_at_ = 0;
  bool turn_is_due_ = false;
  Time wakes_at_{};  // for what Membership has to do then
  bool told_of_joiners_ = false;
  double decided_ = 0;
  Traffic received_;
  Traffic sent_;
  std::chrono::duration<double> membership_time_{};
};

}  // namespace rueda
