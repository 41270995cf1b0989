// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "launcher/agent/agent_client.h"
#include "launcher/agent/process_group_shim.h"
#include "launcher/agent/rank_channel.h"
#include "launcher/agent/rank_process.h"
#include "launcher/job/environment.h"
#include "launcher/job/hydra.h"
#include "launcher/job/mpich_cleanup.h"
#include "launcher/job/stdin_forwarding.h"
#include "launcher/protocol/agent_message.h"
#include "launcher/system/processes.h"
#include "launcher/system/signals.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kCannotStart = 1;
constexpr auto kTerminateGrace = 1s;  // from SIGTERM to SIGKILL, when the agent ends the rank by itself
constexpr auto kAfterthought = 50ms;  // a rank may die of the end of its proxy before the agent knows of that
constexpr auto kLastWords = 1s;       // for the report of an agent that ends by itself

bool was_killed_from_outside(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

// Purpose: sees one rank through: reports its start and end to ruedarun, carries signals and notices to it.
// When nobody is left to ask (the connection has ended, or Hydra's proxy has), it ends the rank, removes what
// MPI left, and ends the proxy. Owner: the only thread of the agent; lives as long as the agent.
class Agent {
 public:
  Agent(Behind hydra, FrameStream supervisor)
      : hydra_(std::move(hydra)), supervisor_(std::move(supervisor)) {}

  void run(int number, const std::vector<std::string>& command, const SignalState& signals);

 private:
  bool is_over() const { return rank_ == 0 && !status_ && (job_over_ || alone_); }
  void turn();
  void read_signals();
  void on_signal(int signal);
  void reap();
  void report_end();
  void hear_supervisor();
  void obey(const agents::Message& message);
  void look_after_oneself();
  void signal_rank(int signal);
  void notify_of_failure();
  void end_rank(agents::Cause cause);
  void clear_up();
  int milliseconds_to_act() const;

  Behind hydra_;
  FrameStream supervisor_;
  RankChannel line_;
  Descriptor signals_;
  pid_t rank_ = 0;  // 0: has ended
  std::set<std::string> files_;
  agents::Cause cause_ = agents::Cause::own;
  bool alone_ = false;                       // nobody will tell this agent to end
  bool job_over_ = false;                    // somebody has
  std::optional<int> status_;                // of the rank, not yet reported
  std::optional<Clock::time_point> act_at_;  // report status_, or else kill the rank
};

void Agent::run(int number, const std::vector<std::string>& command, const SignalState& signals) {
  ::prctl(PR_SET_PDEATHSIG, SIGHUP);  // wakes the loop, which looks at getppid()
  adopt_orphans();
  signals_ = catch_signals({SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2});
  rank_ = start_rank(command, signals);
  if (rank_ < 0) {
    fmt::print(stderr, "ruedarun: cannot fork rank {}: {}\n", number, std::strerror(errno));
    std::fflush(stderr);
    ::_exit(kCannotStart);
  }
  line_.close_the_ranks_end();
  supervisor_.send(agents::encode(agents::Started{host_name(), rank_, ::getpid(), hydra_.proxy}));
  look_after_oneself();  // the front may have ended before it could send SIGHUP
  while (!is_over()) turn();
  clear_up();
}

void Agent::turn() {
  std::array<pollfd, 3> waits{
      {{signals_.number(), POLLIN, 0},
       {supervisor_.descriptor(), static_cast<short>(POLLIN | (supervisor_.has_unsent() ? POLLOUT : 0)), 0},
       {line_.descriptor(), POLLIN, 0}}};
  ::poll(waits.data(), waits.size(), milliseconds_to_act());
  if (waits[2].revents != 0) line_.hear();
  if (waits[1].revents != 0) hear_supervisor();
  if (waits[0].revents != 0) read_signals();
  look_after_oneself();
}

void Agent::read_signals() {
  while (int signal = next_signal(signals_)) on_signal(signal);
}

void Agent::on_signal(int signal) {
  switch (signal) {
    case SIGCHLD: return reap();
    case SIGUSR1: return notify_of_failure();
    case SIGTERM: return end_rank(agents::Cause::hydra);
    case SIGHUP: return;  // see look_after_oneself()
    default: signal_rank(signal);
  }
}

void Agent::reap() {
  int status = 0;
  for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (ended != rank_) continue;
    rank_ = 0;
    line_.hear();
    status_ = status;
    const bool doubtful = status != 0 && cause_ == agents::Cause::own && !was_killed_from_outside(status);
    act_at_ = Clock::now() + (doubtful ? kAfterthought : 0ms);
  }
}

void Agent::report_end() {
  supervisor_.send(agents::encode(agents::Ended{*status_, cause_}));
  status_.reset();
}

void Agent::hear_supervisor() {
  supervisor_.flush();
  supervisor_.receive();
  while (std::optional<Bytes> frame = supervisor_.take()) {
    std::optional<agents::Message> message = agents::decode(*frame);
    if (message) obey(*message);
  }
}

void Agent::obey(const agents::Message& message) {
  if (const auto* lost = std::get_if<agents::PeerEnded>(&message)) {
    line_.tell_lost(lost->rank, lost->words);
    if (line_.mpi_process() != 0) notify_of_failure();
  } else if (const auto* wanted = std::get_if<agents::SendSignal>(&message)) {
    if (rank_ != 0 && cause_ == agents::Cause::own) cause_ = agents::Cause::asked;
    signal_rank(wanted->signal);
  } else if (const auto* passed = std::get_if<agents::PassOn>(&message)) {
    signal_rank(passed->signal);
  } else if (std::holds_alternative<agents::JobOver>(message)) {
    job_over_ = true;
  }
}

void Agent::look_after_oneself() {
  if (!alone_ && ::getppid() != hydra_.front) end_rank(agents::Cause::proxy_gone);
  if (!alone_ && !supervisor_) end_rank(agents::Cause::asked);
  if (!act_at_ || Clock::now() < *act_at_) return;
  act_at_.reset();
  if (status_) return report_end();
  signal_rank(SIGKILL);
}

// A stopped rank takes no signal but SIGKILL until it continues.
void Agent::signal_rank(int signal) {
  if (rank_ == 0) return;
  ::kill(-rank_, signal);
  if (signal == SIGTERM) ::kill(-rank_, SIGCONT);
}

// SIGUSR1 makes MPICH ask Hydra who has failed.
void Agent::notify_of_failure() {
  const pid_t process = line_.mpi_process() != 0 ? line_.mpi_process() : rank_;
  if (rank_ != 0 && catches(process, SIGUSR1)) ::kill(process, SIGUSR1);
}

void Agent::end_rank(agents::Cause cause) {
  if (alone_) return;
  alone_ = true;
  if (rank_ != 0 || (status_ && !was_killed_from_outside(*status_))) cause_ = cause;
  if (rank_ == 0) return;
  for (pid_t process : descendants()) files_.merge(mpich_files_of(process));
  signal_rank(SIGTERM);
  act_at_ = Clock::now() + kTerminateGrace;
}

// The last agent of a host to come here finds the files unused.
void Agent::clear_up() {
  const auto until = Clock::now() + kLastWords;
  while (supervisor_ && supervisor_.has_unsent() && Clock::now() < until) {
    pollfd wait{supervisor_.descriptor(), POLLOUT, 0};
    ::poll(&wait, 1, 100);
    supervisor_.flush();
  }
  kill_descendants();
  files_.insert(line_.files().begin(), line_.files().end());
  remove_unused(files_);
  if (!job_over_ && hydra_.proxy_handle)
    ::syscall(SYS_pidfd_send_signal, hydra_.proxy_handle.number(), SIGKILL, nullptr, 0);
}

int Agent::milliseconds_to_act() const {
  if (!act_at_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*act_at_ - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

}  // namespace

int run_agent(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  std::ranges::transform(command, std::back_inserter(words), undisguised);
  const Place place = export_rank_environment();
  const Supervision supervision = take_supervision();
  take_standard_input(place.rank == 0);
  close_leaked_descriptors();
  Behind hydra = go_behind_a_front();
  FrameStream supervisor = connect_to_supervisor(supervision, place.rank);
  if (!supervisor) {
    fmt::print(
        stderr,
        "ruedarun: the agent of rank {} on {} finds no ruedarun of this job at {} (port, addresses); open "
        "the way, or name the network by --network-interface\n",
        place.rank, host_name(), supervision.addresses);
    return kCannotStart;
  }
  Agent(std::move(hydra), std::move(supervisor)).run(place.rank, words, supervision.signals);
  return 0;
}

}  // namespace rueda
