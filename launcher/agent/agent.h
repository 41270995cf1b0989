// SPDX-License-Identifier: Apache-2.0
// The loop of one host: it starts the ranks there, and sees them through.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/agent_input.h"
#include "launcher/agent/death_watch.h"
#include "launcher/agent/host_observer.h"
#include "launcher/agent/host_values.h"
#include "launcher/agent/local_rank.h"
#include "launcher/agent/pmi_server.h"
#include "launcher/agent/supervisor_line.h"
#include "launcher/agent/terminal_keys.h"
#include "launcher/system/descriptor.h"
#include "launcher/system/epoll_set.h"

namespace rueda {

// Purpose: starts the ranks of one host, reports their ends and their output to ruedarun, carries signals,
// values and notices to them. When ruedarun is gone, it ends them. Owned by the only thread of its process.
class Agent {
 public:
  explicit Agent(SecureChannel channel) : supervisor_(std::move(channel)) {}

  // Until the job is over. False when ruedarun has gone without an order.
  bool run();

 private:
  using Clock = std::chrono::steady_clock;

  // From the start of the ranks to the end of the agent.
  enum class State {
    meeting,   // ruedarun
    waiting,   // for its order
    running,   // ranks
    ending,    // ranks, because ruedarun is gone
    clearing,  // the ranks have ended: their output has to leave
    over,
  };
  enum class Source : std::uint64_t { line, pmi, output, errors };

  void greet();
  void part();
  void turn();
  int milliseconds_to_act() const;
  bool may_read_output() const;
  void hear_supervisor();
  void obey(const agents::Message& message);
  LocalRank* find(int number);
  void end_worker(const agents::EndWorker& order);
  void start(const agents::Launch& launch);
  void start_ranks(const std::vector<SlotInfo>& slots);
  void start_rank(const SlotInfo& slot);
  std::shared_ptr<PseudoTerminal> open_terminal();
  void take_generation(const Generation& generation);
  void take_input(const std::string& text);
  void rank_0_has_ended();
  void hear_rank(std::uint64_t key);
  bool forward_output(LocalRank& rank, std::size_t stream);  // false: there was none
  void forward_last_output(LocalRank& rank);
  void read_signals();
  void pass_notice_on();
  void reap();
  void tell_early_ends();
  void tell_end(LocalRank& rank, int status);
  void tell(const agents::Message& message) { supervisor_.tell(message); }
  void request(std::size_t number, RankChannel::Request& request);
  void ask_ranks(const agents::Request& request);
  void take_value(const agents::Put& put);
  void answer(const std::vector<PmiServer::Answer>& answers);
  void act_on_time();
  void end_ranks();
  void clear_up();

  // The words of ruedarun, for ranks that start now and later.
  struct Order {
    agents::Launch launch;
    std::vector<std::vector<int>> cores;     // by local rank
    std::uint64_t open_files = 0;            // the limit that ranks get
    std::optional<Generation> generation{};  // of an elastic job, the newest
  };

  // From ranks.
  struct Streams {
    EpollSet words;     // which are heard at once
    EpollSet outputs;   // which may have to wait
    bool held = false;  // they do: nobody reads them
  };

  struct Signals {
    Descriptor waiting;
    bool is_to_go = false;  // the host: SIGTERM has come, and has not been passed on
  };

  struct Dying {
    std::size_t number = 0;  // of ranks_
    Clock::time_point until;
  };

  // Of ranks in an elastic job.
  struct Deaths {
    std::optional<DeathWatch> watch;
    std::vector<Dying> dying;  // ranks of which it has told, without a status yet
  };

  SupervisorLine supervisor_;
  Signals signals_;
  State state_ = State::meeting;
  bool ordered_ = false;  // ruedarun has said something
  std::optional<Order> order_;
  std::vector<LocalRank> ranks_;  // in the order of their start
  Streams streams_;
  HostValues values_;
  std::optional<PmiServer> pmi_;  // none in an elastic job
  Deaths deaths_;
  HostObserver observer_;
  AgentInput input_;                         // of rank 0, where ruedarun forwards it
  TerminalKeys keys_;                        // of its terminal
  std::optional<Clock::time_point> act_at_;  // kill ranks, or give up output
};

}  // namespace rueda
