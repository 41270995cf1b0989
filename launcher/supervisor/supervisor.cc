// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "launcher/job/environment.h"
#include "launcher/job/hydra.h"
#include "launcher/job/stdin_forwarding.h"
#include "launcher/system/processes.h"
#include "launcher/system/signals.h"

namespace rueda {

Supervisor::Supervisor(const LaunchOptions& options, std::string mpiexec, LaunchMethod way,
                       double start_timeout, Descriptor signals, const SignalState& inherited)
    : options_(options),
      way_(std::move(way)),
      token_(random_token()),
      hub_(token_, options.ranks, way_.other_hosts),
      job_(options.ranks),
      stop_after_(options.stop_after, options.stop_grace),
      output_(options),
      signals_{.waiting = std::move(signals), .inherited = inherited},
      mpiexec_{.path = std::move(mpiexec)},
      start_{.timeout = start_timeout} {}

int Supervisor::run() {
  adopt_orphans();
  export_job_environment(options_.hosts, hub_.addresses(), token_, signals_.inherited);
  offer_standard_input();
  start();
  while (!is_over()) turn();
  finish();
  return exit_status();
}

void Supervisor::start() {
  std::vector<std::string> command = mpiexec_command(mpiexec_.path, options_, output_.label(), way_.words);
  if (options_.verbose) output_.say(fmt::format("ruedarun: starting {}", fmt::join(command, " ")));
  output_.flush();
  std::array<Descriptor, JobOutput::kStreams> write_ends = output_.open();
  Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  pid_t supervisor = ::getpid();
  mpiexec_.process = ::fork();
  if (mpiexec_.process == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the agents end the rest
    if (::getppid() != supervisor) ::_exit(1);
    ::dup2(nothing.number(), STDIN_FILENO);
    ::dup2(write_ends[0].number(), STDOUT_FILENO);
    ::dup2(write_ends[1].number(), STDERR_FILENO);
    set_signal_state(signals_.inherited.for_hydra());
    execute(command);
    fmt::print(stderr, "ruedarun: cannot start '{}': {}\n", mpiexec_.path, std::strerror(errno));
    std::fflush(stderr);
    ::_exit(127);
  }
  if (mpiexec_.process < 0) throw std::system_error(errno, std::generic_category(), "cannot fork");
  start_.began_at = Clock::now();
  stop_after_.on_start(start_.began_at);
  start_.deadline =
      start_.began_at + std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(start_.timeout));
  if (way_.by == LaunchMethod::By::manager) start_.next_look = start_.began_at;
}

void Supervisor::turn() {
  std::array<pollfd, 4> waits{{{signals_.waiting.number(), POLLIN, 0},
                               {hub_.descriptor(), POLLIN, 0},
                               {output_.descriptor(0), POLLIN, 0},
                               {output_.descriptor(1), POLLIN, 0}}};
  ::poll(waits.data(), waits.size(), milliseconds_to_next_act());
  if (waits[0].revents != 0) read_signals();
  hear_agents();
  bool something_came = waits[2].revents != 0 && output_.read(0);
  something_came |= waits[3].revents != 0 && output_.read(1);
  output_.show_due(Clock::now());
  output_.flush();
  check_output();
  if (something_came) ending_.on_output(Clock::now());
  act_on_time();
}

void Supervisor::read_signals() {
  while (int signal = next_signal(signals_.waiting)) on_signal(signal);
}

void Supervisor::on_signal(int signal) {
  switch (signal) {
    case SIGCHLD: return reap();
    case SIGINT:
    case SIGTERM:
    case SIGHUP: return end_by(signal);
    case SIGTSTP: return stop_with_the_ranks();
    default: pass_on(signal);
  }
}

void Supervisor::pass_on(int signal) {
  for (int rank = 0; rank < options_.ranks; ++rank)
    if (job_.has_started(rank)) hub_.tell(rank, agents::PassOn{signal});
  if (!job_.all_started() && signal != SIGCONT) signals_.passed_on.insert(signal);
}

// Ranks are not in the terminal's session: it stops ruedarun alone.
void Supervisor::stop_with_the_ranks() {
  hub_.tell_all(agents::PassOn{SIGTSTP});
  stop_until_continued();
  hub_.tell_all(agents::PassOn{SIGCONT});
}

void Supervisor::end_by(int signal) {
  const auto now = Clock::now();
  if (end_.signal != 0) return ending_.on_hurry(now);
  end_.signal = signal;
  if (signal == SIGTERM && options_.stop_grace_given) return ending_.on_terminate(now, options_.stop_grace);
  if (signal != SIGINT) return ending_.on_terminate(now);
  hub_.tell_all(agents::SendSignal{SIGINT});
  ending_.on_interrupt(now);
}

// A reader that has gone counts as SIGPIPE. Any other error loses words of ranks, and is told.
void Supervisor::check_output() {
  const std::error_code why = output_.lost();
  if (!why || end_.output_lost || end_.signal != 0) return;
  if (why == std::errc::broken_pipe) {
    if (!end_.failure) end_by(SIGPIPE);
    return;
  }
  end_.output_lost = true;
  output_.say("ruedarun: cannot write the output: " + why.message());
  if (!end_.failure) end_.failure = 1;
  ending_.on_terminate(Clock::now());
}

void Supervisor::reap() {
  int status = 0;
  for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;)
    if (ended == mpiexec_.process) mpiexec_ended(status);
}

// Before the ranks: they can write no more.
void Supervisor::mpiexec_ended(int status) {
  mpiexec_.status = status;
  if (job_.none_runs()) return;
  output_.say(fmt::format("ruedarun: mpiexec (process {} on {}) {}", mpiexec_.process, host_name(),
                          how_it_ended(status)));
  mpiexec_.lost = true;
  // Killed, it is the first to fail; it also ends by itself after a proxy has, which an agent then tells.
  if (!end_.failure && WIFSIGNALED(status)) end_.failure = exit_code(status);
  ending_.on_terminate(Clock::now());
}

void Supervisor::hear_agents() {
  std::vector<AgentServer::Heard> all = hub_.turn();
  // A rank that is killed in MPI_Init can take Hydra's proxy with it: of what comes together, causes go
  // first.
  std::stable_partition(all.begin(), all.end(), [](const AgentServer::Heard& heard) {
    const auto* ended = std::get_if<agents::Ended>(&heard.what);
    return std::holds_alternative<agents::Started>(heard.what) ||
           (ended != nullptr && ended->cause == agents::Cause::own && ended->status != 0);
  });
  for (const AgentServer::Heard& heard : all) hear(heard);
}

void Supervisor::hear(const AgentServer::Heard& heard) {
  const int rank = heard.rank;
  if (const auto* started = std::get_if<agents::Started>(&heard.what)) {
    job_.note_start(rank, *started);
    for (int signal : signals_.passed_on) hub_.tell(rank, agents::PassOn{signal});
    if (job_.all_started()) start_is_over();
    return;
  }
  const auto* ended = std::get_if<agents::Ended>(&heard.what);
  bool failed = ended != nullptr ? job_.note_end(rank, *ended) : job_.note_gone(rank);
  // A rank that was asked to stop, by nothing but --stop-after, has to end well.
  if (ended != nullptr && ended->status != 0 && stop_after_.asked_at() && !ending_.has_begun()) failed = true;
  if (failed) fail(rank);
  check_all_ended();
}

void Supervisor::fail(int rank) {
  if (end_.signal != 0) return;
  constexpr int kMostLines = 16;
  const bool first = !end_.failure;
  if (first && job_.was_killed(rank)) start_.incomplete = !job_.all_started();
  if ((first || job_.was_killed(rank)) && ++end_.failure_lines <= kMostLines)
    output_.say("ruedarun: " + job_.words_for(rank));
  if (!end_.failure) end_.failure = job_.exit_code_of(rank);
  hub_.tell_all(agents::PeerEnded{rank, job_.words_for(rank)});
  ending_.on_failure(Clock::now());
}

void Supervisor::start_is_over() {
  start_.deadline.reset();
  start_.next_look.reset();
}

// Hydra does not notice when srun ends, and waits.
void Supervisor::watch_start(Clock::time_point now) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
  constexpr auto kUnseen = std::chrono::seconds(3);  // it may have ended before the first look
  if (start_.deadline && now >= *start_.deadline)
    return fail_start(fmt::format("{} did not start within {} s; {}, or allow more time by --start-timeout",
                                  job_.missing(), start_.timeout, way_.remedy));
  if (!start_.next_look || now < *start_.next_look) return;
  start_.next_look = now + kBetweenLooks;
  if (mpiexec_.status || ending_.has_begun()) return;
  if (has_children(mpiexec_.process)) {
    start_.starter_seen = true;
  } else if (start_.starter_seen || now > start_.began_at + kUnseen) {
    fail_start(
        fmt::format("{} has ended, and {} did not start; {}", way_.program, job_.missing(), way_.remedy));
  }
}

void Supervisor::fail_start(const std::string& why) {
  start_is_over();
  start_.incomplete = false;  // they are told here
  output_.say("ruedarun: " + why);
  if (!end_.failure) end_.failure = 1;
  ending_.on_terminate(Clock::now());
}

// The agents wait for each other's ranks, so that each sees the end of the job and clears up after it.
void Supervisor::check_all_ended() {
  const bool over = job_.all_ended() || (ending_.has_begun() && job_.none_runs());
  if (!over || end_.said_over) return;
  end_.said_over = job_.all_ended();
  ending_.on_all_ended(Clock::now());
  if (!mpiexec_.status) hub_.tell_all(agents::JobOver{});
}

void Supervisor::act_on_time() {
  const auto now = Clock::now();
  watch_start(now);
  if (ending_.has_begun() || job_.all_ended()) stop_after_.on_end();
  for (StopAfter::Act act; (act = stop_after_.next_act(now)) != StopAfter::Act::nothing;)
    act == StopAfter::Act::ask ? ask_to_stop() : give_up_asking();
  for (Ending::Act act; (act = ending_.next_act(now)) != Ending::Act::nothing;) {
    if (act == Ending::Act::terminate) hub_.tell_all(agents::SendSignal{SIGTERM});
    if (act == Ending::Act::kill) hub_.tell_all(agents::SendSignal{SIGKILL});
    if (act == Ending::Act::force) force();
  }
}

void Supervisor::ask_to_stop() {
  output_.say(
      fmt::format("ruedarun: --stop-after {}s: the ranks are asked to stop", options_.stop_after.count()));
  hub_.tell_all(agents::SendSignal{SIGTERM});
}

void Supervisor::give_up_asking() {
  output_.say(
      fmt::format("ruedarun: ranks still run {} s after they were asked to stop, and are ended; give them "
                  "more time by --stop-grace",
                  options_.stop_grace.count()));
  if (!end_.failure) end_.failure = 128 + SIGTERM;
  ending_.on_terminate(Clock::now());
}

void Supervisor::force() {
  end_.forced = true;
  hub_.close();
  kill_descendants();
  reap();
  if (!mpiexec_.status) mpiexec_.status = SIGKILL;
}

int Supervisor::milliseconds_to_next_act() const {
  std::optional<Clock::time_point> next;
  for (const std::optional<Clock::time_point>& time :
       {ending_.next_time(), stop_after_.next_time(), start_.deadline, start_.next_look, hub_.next_deadline(),
        output_.next_time()})
    if (time) next = std::min(next.value_or(*time), *time);
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

// mpiexec has ended; processes left may still hold its pipes open.
void Supervisor::finish() {
  output_.read_rest();
  hear_agents();
  if (mpiexec_.lost && !end_.failure) end_.failure = std::max(1, exit_code(*mpiexec_.status));
  hub_.close();
  kill_descendants();
  const bool unexplained = !job_.all_ended() && !end_.failure && end_.signal == 0;
  if (unexplained || options_.verbose) output_.say(output_.mpiexec_said());
  if (unexplained) {
    end_.failure = std::max(1, exit_code(*mpiexec_.status));
    output_.say(fmt::format("ruedarun: mpiexec {}, and {} did not start; {}", how_it_ended(*mpiexec_.status),
                            job_.missing(), way_.remedy));
  } else if (start_.incomplete && !job_.all_started()) {
    output_.say(fmt::format("ruedarun: {} did not start", job_.missing()));
  }
  if (stop_after_.asked_at() && job_.all_ended() && !end_.failure && end_.signal == 0) {
    const std::chrono::duration<double> took = Clock::now() - *stop_after_.asked_at();
    output_.say(
        fmt::format("ruedarun: all ranks have ended, {:.1f} s after they were asked to", took.count()));
  }
  if (end_.signal != 0 && end_.signal != SIGPIPE)
    output_.say(fmt::format("ruedarun: ended by {}", ::strsignal(end_.signal)));
  output_.finish();
  check_output();
  output_.flush();
  litter_.sweep();
}

int Supervisor::exit_status() const {
  if (end_.signal != 0) return 128 + end_.signal;
  return end_.failure.value_or(0);
}

}  // namespace rueda
