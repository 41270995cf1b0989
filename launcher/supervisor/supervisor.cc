// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <utility>
#include <variant>

#include "core/base/log.h"
#include "launcher/job/environment.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

constexpr auto kInterruptGrace = std::chrono::seconds(5);
constexpr auto kOneWish = std::chrono::milliseconds(100);
constexpr auto kFarewell =
    std::chrono::seconds(10);  // for agents after the end of all ranks, while nothing comes
constexpr auto kBetweenLooks = std::chrono::seconds(1);  // at an output that is full
constexpr auto kReaderPatience = std::chrono::seconds(5);
constexpr auto kLastPatience = std::chrono::seconds(1);  // after a signal that asks for the end

std::vector<std::string> names_of(const std::vector<HostRanks>& hosts) {
  std::vector<std::string> names;
  for (const HostRanks& host : hosts) names.push_back(host.host);
  return names;
}

}  // namespace

Supervisor::Supervisor(const LaunchOptions& options, LaunchMethod method, const Config& config,
                       Descriptor signals, const SignalState& inherited)
    : options_(options),
      hosts_(place_ranks(options.ranks, method.hosts, host_name())),
      agents_(names_of(hosts_)),
      starter_(options_, std::move(method), names_of(hosts_)),
      values_(agents_, hosts_.size()),
      job_(hosts_),
      stop_after_(options.stop_after, options.grace),
      terminal_(options),
      output_(options, hosts_, terminal_.is_wanted()),
      signals_{.waiting = std::move(signals), .inherited = inherited},
      start_{.timeout = config.start_timeout,
             .shows_info = options.verbose || log_level_from(config.log_level) <= LogLevel::info,
             .folder = std::filesystem::current_path().string()} {}

int Supervisor::run() {
  adopt_orphans();
  try_start();
  while (!is_over()) turn();
  finish();
  return exit_status();
}

void Supervisor::try_start() {
  try {
    start();
  } catch (const std::system_error& error) {
    fail_start(error.what());
  }
}

void Supervisor::start() {
  const auto now = Clock::now();
  for (const pid_t process : descendants()) start_.others.insert(process);
  if (std::optional<Descriptor> socket = starter_.start_here(agents_.key()))
    agents_.take_in(std::move(*socket));
  if (starter_.needs_invitation()) starter_.start_elsewhere(agents_.invite());
  if (options_.verbose)
    for (const std::string& command : starter_.commands()) output_.say("ruedarun: starting " + command);
  stop_after_.on_start(now);
  start_.deadline = now + std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(start_.timeout));
}

bool Supervisor::is_over() const {
  return end_.forced || (end_.said_over && agents_.all_gone() && starter_.none_runs());
}

void Supervisor::turn() {
  std::array<pollfd, 5> waits{{{signals_.waiting.number(), POLLIN, 0},
                               {agents_.descriptor(), POLLIN, 0},
                               {starter_.descriptor(), POLLIN, 0},
                               {input_.descriptor(), POLLIN, 0},
                               {output_.descriptor(), POLLIN, 0}}};
  ::poll(waits.data(), waits.size(), milliseconds_to_next_act());
  if (waits[0].revents != 0) read_signals();
  for (const AgentServer::Heard& heard : agents_.turn()) hear(heard);
  if (waits[2].revents != 0)
    for (const std::string& line : starter_.lines()) output_.say(line);
  // A signal may have sent this process into the background meanwhile, where reading would stop it.
  if (waits[3].revents != 0 && input_.descriptor() >= 0) forward_input();
  move_output();
  act_on_time();
}

int Supervisor::milliseconds_to_next_act() const {
  std::optional<Clock::time_point> next;
  if (end_.holding) next = Clock::now() + kBetweenLooks;
  for (const std::optional<Clock::time_point>& time :
       {ending_.next_time(), stop_after_.next_time(), start_.deadline, agents_.next_deadline(),
        output_.next_time(), end_.farewell, terminal_.next_time(Clock::now())})
    if (time) next = std::min(next.value_or(*time), *time);
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
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
    case SIGWINCH: return adapt_to_terminal();
    case SIGCONT:
      if (terminal_.resume()) adapt_to_terminal();
      return pass_on(signal);
    default: pass_on(signal);
  }
}

void Supervisor::pass_on(int signal) {
  agents_.tell_all(agents::PassOn{signal});
  if (!job_.all_started() && signal != SIGCONT) signals_.passed_on.insert(signal);
}

void Supervisor::forward_input() {
  const std::optional<agents::Input> input = input_.read();
  if (!input) return;
  if (terminal_.demands_end(input->text, end_.signal != 0, Clock::now())) on_key(SIGINT);
  agents_.tell(0, *input);
}

// As the terminal does it in its other mode: all processes of the foreground get the signal, a script around
// ruedarun, too.
void Supervisor::on_key(int signal) {
  if (!terminal_.is_raw()) return on_signal(signal);
  if (signal == SIGTSTP) terminal_.pause();  // a shell may take the terminal at once
  ::kill(0, signal);
  read_signals();
}

void Supervisor::adapt_to_terminal() {
  output_.use(terminal_.is_raw() ? LineEnd::both : LineEnd::feed);
  if (const std::optional<TerminalSize> size = terminal_.size()) agents_.tell(0, agents::Resize{*size});
}

void Supervisor::watch_terminal() {
  switch (terminal_.next_act(Clock::now(), output_.all_written())) {
    case TerminalSession::Act::nothing: return;
    case TerminalSession::Act::resumed: return adapt_to_terminal();
    case TerminalSession::Act::left: return leave_terminal();
  }
}

// The user's keys are ruedarun's again.
void Supervisor::leave_terminal() {
  terminal_.leave();
  input_.end();
  output_.use(LineEnd::feed);
}

// Ranks are not in the terminal's session: it stops ruedarun alone.
void Supervisor::stop_with_the_ranks() {
  agents_.tell_all(agents::PassOn{SIGTSTP});
  const auto before = Clock::now();
  terminal_.pause();
  stop_until_continued();
  terminal_.resume();
  adapt_to_terminal();
  if (start_.deadline) *start_.deadline += Clock::now() - before;
  agents_.tell_all(agents::PassOn{SIGCONT});
}

void Supervisor::end_by(int signal) {
  const auto now = Clock::now();
  const bool again = end_.signal != 0;
  // A terminal that closes, timeout and other programs send one wish as two signals.
  if (again && now < end_.signal_at + kOneWish) return;
  if (again) return ending_.on_hurry(now);
  end_.signal = signal;
  end_.signal_at = now;
  if (signal == SIGINT) agents_.tell_all(agents::SendSignal{SIGINT});
  if (signal == SIGINT)
    ending_.on_interrupt(now, options_.grace_given ? options_.grace : kInterruptGrace);
  else if (signal == SIGPIPE)
    ending_.on_terminate(now);
  else
    ending_.on_terminate(now, options_.grace);
  check_all_ended();
}

void Supervisor::reap() {
  int status = 0;
  for (pid_t process; (process = ::waitpid(-1, &status, WNOHANG)) > 0;)
    if (const auto starter = starter_.note_end(process, status)) starter_ended(*starter);
}

// A janitor ends after its agent, of which the connection tells.
void Supervisor::starter_ended(const AgentStarter::EndedStarter& starter) {
  for (const std::string& line : starter_.lines()) output_.say(line);
  if (end_.said_over || start_.failed) return;
  const std::string command = starter.on_this_machine ? "the agent on this machine" : starter.command;
  for (const int host : starter.hosts) {
    if (job_.is_ready(host)) continue;
    return fail_start(fmt::format("{} {}, and {} did not start; {}", command, how_it_ended(starter.status),
                                  job_.ranks_on(host), starter_.remedy()));
  }
  if (!starter.on_this_machine && starter.status != 0 && !job_.all_ended())
    output_.say(fmt::format("ruedarun: {} {}", command, how_it_ended(starter.status)));
}

void Supervisor::hear(const AgentServer::Heard& heard) {
  if (const auto* message = std::get_if<agents::Message>(&heard.what)) return hear(heard.host, *message);
  const bool early = !job_.all_started_on(heard.host);
  if (heard.host == 0) terminal_.on_end(Clock::now());
  for (const int rank : job_.note_gone(heard.host)) fail(rank);
  if (early && !end_.said_over)
    fail_start(fmt::format("the agent on {} has gone, and {} did not start; {}",
                           hosts_[static_cast<std::size_t>(heard.host)].host, job_.ranks_on(heard.host),
                           starter_.remedy()));
  check_all_ended();
}

// An agent speaks of the ranks of its own host only.
void Supervisor::hear(int host, const agents::Message& message) {
  const auto is_its = [&](int rank) { return job_.is_rank(rank) && job_.is_on(rank, host); };
  if (const auto* output = std::get_if<agents::Output>(&message)) {
    if (is_its(output->rank)) output_.add(*output);
    if (output->rank == 0 && is_its(0)) terminal_.on_output(Clock::now());
    if (end_.said_over) still_ending();
  } else if (const auto* put = std::get_if<agents::Put>(&message)) {
    values_.put(*put);
  } else if (std::holds_alternative<agents::BarrierIn>(message)) {
    values_.enter_barrier(host);
  } else if (const auto* ready = std::get_if<agents::Ready>(&message)) {
    launch(host, *ready);
  } else if (const auto* fresh = std::get_if<agents::Started>(&message)) {
    if (is_its(fresh->rank)) started(*fresh);
  } else if (const auto* over = std::get_if<agents::Ended>(&message)) {
    if (is_its(over->rank)) ended(*over);
  } else if (const auto* refusal = std::get_if<agents::CannotStart>(&message)) {
    job_.note_no_start(host);
    fail_start(fmt::format("{}, on {}", refusal->why, hosts_[static_cast<std::size_t>(host)].host));
  } else if (const auto* terminal = std::get_if<agents::NoTerminal>(&message)) {
    if (terminal_.is_wanted() && is_its(0)) do_without_terminal(terminal->why);
  } else if (const auto* taken = std::get_if<agents::InputTaken>(&message)) {
    input_.note_taken(taken->bytes);
  } else if (const auto* key = std::get_if<agents::KeyTyped>(&message)) {
    if (terminal_.is_wanted() && is_its(0) && !signals_.inherited.ignores(key->signal)) on_key(key->signal);
  }
}

void Supervisor::launch(int host, const agents::Ready& ready) {
  if (job_.is_ready(host)) return;
  job_.note_ready(host, ready);
  if (ending_.has_begun()) return agents_.tell(host, agents::JobOver{});
  const HostRanks& here = hosts_[static_cast<std::size_t>(host)];
  const bool has_rank_0 = here.places.front().rank == 0;
  const bool is_here = starter_.is_here(static_cast<std::size_t>(host));
  agents::Launch order{.places = here.places,
                       .command = options_.command,
                       .environment = job_environment(),
                       .folder = start_.folder,
                       .signals = signals_.inherited,
                       .binding = options_.binding,
                       .forwards_input = has_rank_0 && (!is_here || terminal_.is_wanted()),
                       .hosts_of_processes = process_mapping(hosts_),
                       .terminal = has_rank_0 ? terminal_.size() : std::nullopt,
                       .needs_terminal = options_.terminal == LaunchOptions::Terminal::always};
  if (order.forwards_input) input_.begin(terminal_.is_wanted());
  if (has_rank_0) terminal_.on_start();
  job_.note_launch(host);
  agents_.tell(host, order);
  values_.welcome(host);
  for (const int signal : signals_.passed_on) agents_.tell(host, agents::PassOn{signal});
}

void Supervisor::do_without_terminal(const std::string& why) {
  terminal_.do_without();
  input_.begin(false);
  output_.use(LineEnd::feed);
  output_.show_rank_0_by_line();
  if (start_.shows_info) output_.say("ruedarun: rank 0 starts without a terminal: " + why);
}

void Supervisor::started(const agents::Started& started) {
  job_.note_start(started);
  if (options_.verbose)
    output_.say(fmt::format("ruedarun: rank {} is process {}{}", started.rank, started.process,
                            started.cores.empty() ? "" : ", bound to the cores " + started.cores));
  if (job_.all_started()) start_.deadline.reset();
}

void Supervisor::ended(const agents::Ended& ended) {
  bool failed = job_.note_end(ended);
  if (ended.rank == 0) terminal_.on_end(Clock::now());
  // A rank that was asked to stop, by nothing but --stop-after, has to end well.
  if (ended.status != 0 && stop_after_.asked_at() && !ending_.has_begun()) failed = true;
  if (failed) fail(ended.rank);
  check_all_ended();
}

void Supervisor::fail(int rank) {
  if (end_.signal != 0 || end_.said_over) return;
  constexpr int kMostLines = 16;
  const bool first = !end_.failure;
  if ((first || job_.was_killed(rank)) && ++end_.failure_lines <= kMostLines)
    output_.say("ruedarun: " + job_.words_for(rank));
  if (!end_.failure) end_.failure = job_.exit_code_of(rank);
  // Later ones end because of these.
  if (++end_.told_failures <= kMostLines) agents_.tell_all(agents::PeerEnded{rank, job_.words_for(rank)});
  ending_.on_failure(Clock::now());
}

void Supervisor::fail_start(const std::string& why) {
  start_.deadline.reset();
  if (std::exchange(start_.failed, true) || end_.signal != 0) return;
  output_.say("ruedarun: " + why);
  if (!end_.failure) end_.failure = 1;
  ending_.on_terminate(Clock::now());
  check_all_ended();
}

// The agents wait for each other's ranks, so that what one of them leaves behind lives as long as the job.
void Supervisor::check_all_ended() {
  const bool over = job_.all_ended() || (ending_.has_begun() && job_.none_runs());
  if (!over || end_.said_over) return;
  end_.said_over = true;
  ending_.on_all_ended(Clock::now());
  still_ending();
  agents_.tell_all(agents::JobOver{});
  starter_.end_those([&](int host) { return !job_.is_ready(host); });
}

// Agents have something to do: output of ranks that have ended leaves them.
void Supervisor::still_ending() {
  ending_.on_output(Clock::now());
  end_.farewell = Clock::now() + kFarewell;
}

void Supervisor::move_output() {
  const auto now = Clock::now();
  output_.show_due(now);
  output_.flush();
  const bool full = output_.is_full(now, end_.signal == 0 ? kReaderPatience : kLastPatience);
  if (full != end_.holding) agents_.tell_all(agents::HoldOutput{full});
  end_.holding = full;
  if (full && end_.said_over) still_ending();
  check_output();
}

// A reader that has gone counts as SIGPIPE. Any other error loses words of ranks, and is told.
void Supervisor::check_output() {
  const std::error_code lost = output_.lost(), lost_copy = output_.lost_copy();
  const std::error_code why = lost ? lost : lost_copy;
  if (!why || end_.output_lost || end_.signal != 0) return;
  if (lost == std::errc::broken_pipe) {
    if (!end_.failure) end_by(SIGPIPE);
    return;
  }
  end_.output_lost = true;
  output_.say(fmt::format("ruedarun: cannot write {}: {}",
                          lost ? "the output" : "a file of --output-filename", why.message()));
  if (!end_.failure) end_.failure = 1;
  if (lost) ending_.on_terminate(Clock::now());
}

void Supervisor::act_on_time() {
  const auto now = Clock::now();
  watch_terminal();
  if (start_.deadline && now >= *start_.deadline)
    fail_start(fmt::format("{} did not start within {} s; {}, or allow more time by --start-timeout",
                           job_.missing(), start_.timeout, starter_.remedy()));
  if (end_.farewell && now >= *end_.farewell) give_up_agents();
  if (ending_.has_begun() || job_.all_ended()) stop_after_.on_end();
  for (StopAfter::Act act; (act = stop_after_.next_act(now)) != StopAfter::Act::nothing;)
    act == StopAfter::Act::ask ? ask_to_stop() : give_up_asking();
  for (Ending::Act act; (act = ending_.next_act(now)) != Ending::Act::nothing;) {
    if (act == Ending::Act::terminate) agents_.tell_all(agents::SendSignal{SIGTERM});
    if (act == Ending::Act::kill) agents_.tell_all(agents::SendSignal{SIGKILL});
    if (act == Ending::Act::force) force();
  }
}

void Supervisor::ask_to_stop() {
  output_.say(
      fmt::format("ruedarun: --stop-after {}s: the ranks are asked to stop", options_.stop_after.count()));
  agents_.tell_all(agents::SendSignal{SIGTERM});
}

void Supervisor::give_up_asking() {
  output_.say(
      fmt::format("ruedarun: ranks still run {} s after they were asked to stop, and are ended; give them "
                  "more time by --grace",
                  options_.grace.count()));
  if (!end_.failure) end_.failure = 128 + SIGTERM;
  ending_.on_terminate(Clock::now());
}

void Supervisor::give_up_agents() {
  end_.farewell.reset();
  std::string left;
  for (const std::string& command : starter_.commands()) left += (left.empty() ? "" : "; ") + command;
  output_.say(fmt::format("ruedarun: all ranks have ended, and these have not within {} s: {}",
                          kFarewell.count(), left.empty() ? "the agent on this machine" : left));
  if (!end_.failure) end_.failure = 1;
  force();
}

void Supervisor::force() {
  end_.forced = true;
  agents_.close();
}

// The agents have gone, or are told to: their janitors see to the rest.
void Supervisor::finish() {
  agents_.close();
  const auto until = Clock::now() + std::chrono::seconds(2);
  while (!starter_.none_runs() && Clock::now() < until) {
    pollfd wait{signals_.waiting.number(), POLLIN, 0};
    ::poll(&wait, 1, 100);
    read_signals();
  }
  kill_descendants(start_.others);
  say_the_end();
  output_.finish();
  const auto terminals = Clock::now() + kLastPatience;
  wait_for_reader([&] { return !terminal_.is_raw() || Clock::now() >= terminals; });
  leave_terminal();
  const auto enough = Clock::now() + kLastPatience;
  // As long as it takes, but after a signal only until then.
  const auto is_enough = [&] { return end_.signal != 0 && Clock::now() >= enough; };
  wait_for_reader(is_enough);
  check_output();  // the last words may be lost, too
  output_.finish();
  wait_for_reader(is_enough);
}

void Supervisor::wait_for_reader(const std::function<bool()>& is_enough) {
  while (!output_.all_written() && !is_enough()) {
    std::array<pollfd, 2> waits{{{signals_.waiting.number(), POLLIN, 0}, {output_.descriptor(), POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), 1000);
    read_signals();
    output_.is_full(Clock::now(), kReaderPatience);
    output_.flush();
  }
}

void Supervisor::say_the_end() {
  if (end_.failure && !start_.failed && !job_.all_started())
    output_.say(fmt::format("ruedarun: {} did not start", job_.missing()));
  if (stop_after_.asked_at() && job_.all_ended() && !end_.failure && end_.signal == 0) {
    const std::chrono::duration<double> took = Clock::now() - *stop_after_.asked_at();
    output_.say(
        fmt::format("ruedarun: all ranks have ended, {:.1f} s after they were asked to", took.count()));
  }
  if (end_.signal != 0 && end_.signal != SIGPIPE)
    output_.say(fmt::format("ruedarun: ended by {}", ::strsignal(end_.signal)));
}

int Supervisor::exit_status() const {
  if (end_.signal != 0) return 128 + end_.signal;
  return end_.failure.value_or(0);
}

}  // namespace rueda
