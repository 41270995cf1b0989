// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/local_rank.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include "launcher/agent/pmi_server.h"
#include "launcher/job/environment.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

constexpr int kCannotStart = 127;

// The rank's ends of all that connects it with the agent.
struct RanksEnds {
  int terminal = -1;  // -1: it has the next three
  int input = -1;
  std::array<int, LocalRank::kStreams> outputs{-1, -1};
  std::array<int, 3> inherited{-1, -1, -1};  // to stay open under their numbers
};

[[noreturn]] void cannot(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), "cannot " + what);
}

void bind_to(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

[[noreturn]] void refuse_to_start(const std::string& why) {
  fmt::print(stderr, "ruedarun: {}: {}\n", why, std::strerror(errno));
  std::fflush(stderr);
  ::_exit(kCannotStart);
}

void take_streams(const RanksEnds& ends) {
  if (ends.terminal >= 0) {
    if (!move_to_terminal(ends.terminal)) refuse_to_start("cannot move to a terminal of its own");
    return;
  }
  ::setpgid(0, 0);
  ::dup2(ends.input, STDIN_FILENO);
  ::dup2(ends.outputs[0], STDOUT_FILENO);
  ::dup2(ends.outputs[1], STDERR_FILENO);
}

// In the child. Never returns.
[[noreturn]] void become_rank(pid_t agent, const RanksEnds& ends, const LocalRank::Start& start,
                              const std::vector<std::string>& environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != agent) ::_exit(kCannotStart);  // the agent has ended before the line above
  take_streams(ends);
  for (const int descriptor : ends.inherited) ::fcntl(descriptor, F_SETFD, 0);
  bind_to(start.cores);
  limit_descriptors(start.open_files);
  if (::chdir(start.launch.folder.c_str()) != 0) refuse_to_start("no folder '" + start.launch.folder + "'");
  set_signal_state(start.launch.signals);
  std::vector<char*> variables;
  for (const std::string& variable : environment) variables.push_back(const_cast<char*>(variable.c_str()));
  variables.push_back(nullptr);
  environ = variables.data();
  execute(start.launch.command);
  refuse_to_start(fmt::format("cannot start '{}'", start.launch.command.front()));
}

// The sockets of PMI: the agent's end, and the rank's.
std::pair<Descriptor, Descriptor> pmi_sockets() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    cannot("make a pair of sockets");
  Descriptor ours(ends[0]), low(ends[1]);
  set_non_blocking(ours.number());
  Descriptor theirs = high_copy_of(low);
  if (!theirs) cannot("copy a socket");
  return {std::move(ours), std::move(theirs)};
}

int socket_of(int core) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/physical_package_id", core));
  int socket = 0;
  return file >> socket ? socket : 0;
}

}  // namespace

// MPI cannot lose a rank and go on, so an elastic job does not offer it.
LocalRank::LocalRank(const SlotInfo& slot, Start start) : slot_(slot), terminal_(start.terminal) {
  Descriptor pmi;
  Descriptor futex;
  if (start.launch.elastic) {
    futex_ = std::make_unique<SharedRobustFutex>();
    futex = high_copy_of(futex_->file());
  } else {
    std::tie(pmi_, pmi) = pmi_sockets();
  }
  Pipe output, errors;
  if (!terminal_) output = make_pipe(), errors = make_pipe();
  const RanksEnds ends{.terminal = terminal_ ? terminal_->programs_end() : -1,
                       .input = start.input.number(),
                       .outputs = {output.write_end.number(), errors.write_end.number()},
                       .inherited = {channel_.ranks_end(), pmi.number(), futex.number()}};
  EnvironmentMap own = start.launch.elastic ? worker_variables(slot, start.launch.host, start.launch.one_host)
                                            : rank_variables(slot, start.launch.host);
  if (pmi) own["PMI_FD"] = std::to_string(pmi.number());
  if (futex) own["RUEDA_ROBUST_FUTEX"] = identity_of(futex.number());
  own["RUEDA_JOB"] = start.launch.name;
  own["RUEDA_AGENT_LINE"] = identity_of(channel_.ranks_end());
  const std::vector<std::string> environment =
      rank_environment(start.launch.environment, own,
                       {{"OMP_NUM_THREADS", std::to_string(threads_for_each(slot.local_size))}});
  const pid_t agent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) become_rank(agent, ends, start, environment);
  if (process_ < 0) cannot(fmt::format("fork rank {}", slot.rank));
  channel_.close_the_ranks_end();
  if (futex_) futex_->close_file();
  if (terminal_) return;
  ::setpgid(process_, process_);  // here too: whichever comes first
  outputs_ = {std::move(output.read_end), std::move(errors.read_end)};
  for (const Descriptor& each : outputs_) set_non_blocking(each.number());
}

// A stopped process takes no signal but SIGKILL until it continues. Nobody outside of its session could
// continue a rank on a terminal of its own, so the kernel does not stop it by SIGTSTP.
void LocalRank::signal_all(int signal) {
  if (process_ == 0) return;
  if (signal == SIGTSTP && terminal_) signal = SIGSTOP;
  if (::kill(-process_, signal) != 0) ::kill(process_, signal);  // it has not begun its session yet
  if (signal == SIGTERM) ::kill(-process_, SIGCONT);
}

void LocalRank::signal_main(int signal) {
  if (process_ == 0) return;
  if (!channel_.signal_member(signal)) return signal_all(signal);
  if (signal == SIGTERM) ::kill(-process_, SIGCONT);
}

void LocalRank::notify_of_failure() {
  const pid_t process = channel_.member();
  if (process_ == 0 || !channel_.uses_mpi() || process == 0 || !catches(process, SIGUSR1)) return;
  channel_.signal_member(SIGUSR1);
}

void LocalRank::end_group() const {
  if (process_ != 0) ::kill(-process_, SIGKILL);
}

void LocalRank::note_end() {
  process_ = 0;
  channel_.forget_member();
  if (terminal_) terminal_->close_programs_end();
}

int LocalRank::output(std::size_t stream) const {
  if (!terminal_) return outputs_[stream].number();
  return stream == 0 ? terminal_->descriptor() : -1;
}

std::string LocalRank::read_output(std::size_t stream) {
  const int descriptor = output(stream);
  if (descriptor < 0) return "";
  std::string text(read_some(descriptor));
  if (!text.empty() || errno == EAGAIN || errno == EINTR) return text;
  if (terminal_) {
    terminal_->close();
  } else {
    outputs_[stream].close();
  }
  return text;
}

std::vector<std::string> LocalRank::read_pmi() {
  std::vector<std::string> lines;
  if (!pmi_) return lines;
  const std::string_view text = read_some(pmi_.number());
  if (text.empty() && errno != EAGAIN && errno != EINTR) pmi_.close();
  pmi_heard_ += text;
  for (std::size_t end; (end = pmi_heard_.find('\n')) != std::string::npos; pmi_heard_.erase(0, end + 1))
    lines.push_back(pmi_heard_.substr(0, end));
  if (pmi_heard_.size() > PmiServer::kLongestLine) pmi_.close();
  return lines;
}

// Answers are short, and a rank waits for each: one that does not fit means that the rank reads none.
void LocalRank::answer_pmi(const std::string& line) {
  if (!pmi_) return;
  const ssize_t sent = ::send(pmi_.number(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(line.size())) pmi_.close();
}

std::vector<std::vector<int>> cores_of_ranks(agents::Binding binding, int ranks) {
  std::vector<std::vector<int>> shares(static_cast<std::size_t>(ranks));
  cpu_set_t usable;
  if (binding == agents::Binding::none || ::sched_getaffinity(0, sizeof usable, &usable) != 0) return shares;
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &usable)) cores.push_back(core);
  if (cores.size() % shares.size() != 0 || cores.size() < shares.size()) return shares;
  const std::size_t each = cores.size() / shares.size();
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const auto begin = cores.begin() + static_cast<std::ptrdiff_t>(rank * each);
    shares[rank].assign(begin, begin + static_cast<std::ptrdiff_t>(each));
    if (binding == agents::Binding::core) continue;
    const int socket = socket_of(shares[rank].front());
    shares[rank].clear();
    std::ranges::copy_if(cores, std::back_inserter(shares[rank]),
                         [&](int core) { return socket_of(core) == socket; });
  }
  return shares;
}

}  // namespace rueda
