// SPDX-License-Identifier: Apache-2.0
// The workers of an elastic job and the agents of their hosts, on a simulated clock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/control/membership/generation.h"
#include "tests/sim/elastic/simulated_supervisor.h"
#include "tests/sim/simulated_start.h"

namespace rueda {

using SharedGeneration = std::shared_ptr<const Generation>;

// How quick workers are. Times in microseconds.
struct WorkerHabits {
  double skew = 0;      // a rank has given its operations up within so long of hearing of a loss
  double commit = 1e5;  // a member that hears of joiners leaves within so long
  std::uint32_t seed = 1;
};

// Purpose: one process of the job, as ElasticWorker and init() behave.
struct SimulatedProcess {
  enum class State { inside, leaving, waiting, forming, dead };
  State state = State::inside;
  int host = 0;
  std::optional<std::uint64_t> tried;  // the last generation that it was in, or tried to form
  SharedGeneration mine;               // that it is in, leaves or forms
  SharedGeneration heard;              // the newest
  double since = 0;                    // it has begun to form, or is inside
  std::uint32_t calls = 0;             // of init()
};

// What is seen of them. Times in microseconds.
struct WorkersSeen {
  double all_broken = 0;             // the last member of generation 0 has heard that it is over
  std::uint64_t longest_text = 0;    // bytes of a list of workers, as a rank gets it
  Traffic root_received, root_sent;  // by ranks 0 in starts, those that were given up included
};

// Purpose: all processes with their agents. Between them and ruedarun go real messages; the starts of
// generations are real as far as SimulatedStart is. Each event comes from the clock.
class SimulatedWorkers {
 public:
  // Generation 0 goes on. All arguments outlive this.
  SimulatedWorkers(EventQueue& clock, const ClusterShape& shape, const StartCosts& start,
                   const SupervisorCosts& costs, const WorkerHabits& habits);

  void connect(SimulatedSupervisor& supervisor) { supervisor_ = &supervisor; }
  std::vector<std::vector<Worker>> by_host() const;

  // What happens now.
  void lose(Worker worker);
  void lose_host(int host);
  // A further worker is ready on that host.
  void join(int host);
  // A message of ruedarun has come to the agent.
  void tell_agent(int host, const Bytes& bytes);

  const std::vector<SimulatedProcess>& processes() const { return processes_; }
  const WorkersSeen& seen() const { return seen_; }

 private:
  struct Agent {
    std::vector<Worker> workers;
    double free_at = 0;
    SharedGeneration newest;
    std::set<std::uint64_t> roots;  // generations whose rank 0 is known here
    bool gone = false;
  };
  struct RunningStart {
    SharedGeneration generation;
    SimulatedStart start;
    bool busy = false;  // rank 0
  };

  SimulatedProcess& process(Worker worker) { return processes_[static_cast<std::size_t>(worker)]; }
  Agent& agent(int host) { return agents_[static_cast<std::size_t>(host)]; }
  double within(double longest) { return std::uniform_real_distribution<double>(0, longest)(random_); }
  double busy(Agent& agent);
  bool is_rank_0(const SimulatedProcess& process, Worker worker) const;
  void tell_supervisor(int host, const agents::Message& message);
  void pass_on(Agent& agent, const Generation& generation);
  void pass_root_on(Agent& agent, const agents::Put& put);

  void hear_of_loss(Worker worker, Worker lost);
  void hear_of_joiners(Worker worker);
  void hear(Worker worker, const SharedGeneration& generation);
  void leave(Worker worker, double delay);
  void call_init(Worker worker);
  void form_or_wait(Worker worker);
  void ask(Worker worker, double pause);
  void form(Worker worker);
  void find_root(Worker worker, std::uint64_t generation);
  void serve(std::uint64_t generation);
  void begin_work(std::uint64_t generation);
  void enter(Worker worker, std::uint64_t generation);
  void give_up_start(Worker worker);
  void count(const StartResult& start);

  EventQueue& clock_;
  const ClusterShape& shape_;
  const StartCosts& start_costs_;
  const SupervisorCosts& costs_;
  const WorkerHabits& habits_;
  std::mt19937 random_;
  SimulatedSupervisor* supervisor_ = nullptr;
  std::vector<Agent> agents_;                                      // by host
  std::vector<SimulatedProcess> processes_;                        // by worker
  std::map<std::uint64_t, std::unique_ptr<RunningStart>> starts_;  // by generation
  SharedGeneration newest_;                                        // that an agent has heard of
  WorkersSeen seen_;
};

}  // namespace rueda
