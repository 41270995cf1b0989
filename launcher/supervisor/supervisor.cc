// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <variant>

#include "core/base/log.h"
#include "launcher/job/environment.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

constexpr auto kBetweenLooks = std::chrono::seconds(1);  // at an output that is full
constexpr auto kReaderTimeout = std::chrono::seconds(5);
constexpr auto kLastTimeout = std::chrono::seconds(1);  // after a signal that asks for the end

std::vector<std::string> names_of(const std::vector<HostRanks>& hosts) {
  std::vector<std::string> names;
  for (const HostRanks& host : hosts) names.push_back(host.host);
  return names;
}

// The same as long as this process lives.
const std::string& name_of_job() {
  static const std::string name = [] {
    std::random_device random;
    return fmt::format("rueda_{:08x}{:08x}", random(), random());
  }();
  return name;
}

}  // namespace

Supervisor::Supervisor(const LaunchOptions& options, const LaunchMethod& method, const Config& config,
                       Descriptor signals, const SignalState& inherited,
                       std::unique_ptr<HostDiscovery> discovery)
    : options_(options),
      hosts_(place_ranks(options.ranks, method.hosts, host_name())),
      agents_(names_of(hosts_)),
      starter_(options_, method, names_of(hosts_)),
      values_(agents_, hosts_.size()),
      job_(hosts_),
      terminal_(options),
      output_(options, hosts_, terminal_.is_wanted()),
      signals_{.waiting = std::move(signals), .inherited = inherited},
      start_{.timeout = config.start_timeout,
             .shows_info = options.verbose || log_level_from(config.log_level) <= LogLevel::info,
             .folder = std::filesystem::current_path().string(),
             .environment = rank_environment(job_environment(), {},
                                             master_address(hosts_.front().host, hosts_.size() == 1))},
      end_(options_, job_, agents_, starter_, output_),
      page_(JobPage::of_job(options_, hosts_,
                            {.tell =
                                 [this](std::optional<int> host, const agents::Message& message) {
                                   host ? agents_.tell(*host, message) : agents_.tell_all(message);
                                 },
                             .stop = [this] { end_.ask_now(); },
                             .say =
                                 [this](const std::string& line) {
                                   output_.say(line);
                                   output_.flush();
                                 },
                             .words_for =
                                 [this](int rank) {
                                   return job_.has_ended(rank)
                                              ? words_for(rank)
                                              : fmt::format("rank {} ({})", rank, job_.process_of(rank));
                                 }})) {
  if (options_.elastic.least > 0)
    elastic_.emplace(
        options_,
        ElasticJob::Hosts{.placed = hosts_,
                          .listed = method.hosts,
                          .discovery = std::move(discovery),
                          .start_agent = [this](const std::string& name) { return add_host(name); },
                          .start_timeout = std::chrono::duration<double>(config.start_timeout)},
        job_, agents_, output_, end_);
}

int Supervisor::run() {
  adopt_orphans();
  try_start();
  while (!is_over()) turn();
  finish();
  return end_.exit_status();
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
  std::vector<int> hosts(hosts_.size());
  std::iota(hosts.begin(), hosts.end(), 0);
  start_agents(hosts);
  if (options_.verbose)
    for (const std::string& command : starter_.commands()) output_.say("ruedarun: starting " + command);
  if (page_) page_->start();
  if (page_ && !page_->line().empty()) output_.say(page_->line());
  end_.on_start(now);
  start_.deadline = now + std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(start_.timeout));
}

void Supervisor::start_agents(const std::vector<int>& hosts) {
  std::vector<int> elsewhere;
  for (const int host : hosts) {
    if (starter_.is_here(host))
      agents_.take_in(starter_.start_here(agents_.key(), host));
    else
      elsewhere.push_back(host);
  }
  if (!elsewhere.empty()) starter_.start_elsewhere(agents_.invite(), elsewhere);
}

// During an elastic job.
int Supervisor::add_host(const std::string& name) {
  hosts_.push_back({name, {}});
  agents_.add_host(name);
  starter_.add_host(name);
  const int host = job_.add_host();
  if (page_) page_->add_host(name);
  start_agents({host});
  return host;
}

bool Supervisor::is_over() const {
  return end_.is_forced() || (end_.agents_know() && agents_.all_gone() && starter_.none_runs());
}

void Supervisor::turn() {
  std::array<pollfd, 7> waits{{{signals_.waiting.number(), POLLIN, 0},
                               {agents_.descriptor(), POLLIN, 0},
                               {starter_.descriptor(), POLLIN, 0},
                               {input_.descriptor(), POLLIN, 0},
                               {output_.descriptor(), POLLIN, 0},
                               {elastic_ ? elastic_->descriptor() : -1, POLLIN, 0},
                               {page_ ? page_->descriptor() : -1, POLLIN, 0}}};
  ::poll(waits.data(), waits.size(), milliseconds_to_next_act());
  if (waits[0].revents != 0) read_signals();
  for (const AgentServer::Heard& heard : agents_.turn()) hear(heard);
  if (waits[2].revents != 0)
    for (const std::string& line : starter_.lines()) output_.say(line);
  // A signal may have sent this process into the background meanwhile, where reading would stop it.
  if (waits[3].revents != 0 && input_.descriptor() >= 0) forward_input();
  move_output();
  act_on_time();
  if (page_) page_->act(Clock::now(), waits[6].revents != 0);
}

int Supervisor::milliseconds_to_next_act() const {
  std::optional<Clock::time_point> next;
  if (agents_.holds_output()) next = Clock::now() + kBetweenLooks;
  for (const std::optional<Clock::time_point>& time :
       {end_.next_time(), start_.deadline, agents_.next_deadline(), output_.next_time(),
        terminal_.next_time(Clock::now()), elastic_ ? elastic_->next_time() : std::nullopt,
        page_ ? page_->next_time() : std::nullopt})
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
    case SIGHUP: return end_.end_by(signal);
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
  if (terminal_.demands_end(input->text, end_.signal() != 0, Clock::now())) on_key(SIGINT);
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

void Supervisor::reap() {
  int status = 0;
  for (pid_t process; (process = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (elastic_ && elastic_->note_end(process, status)) continue;
    if (const auto starter = starter_.note_end(process, status)) starter_ended(*starter);
  }
}

// A janitor ends after its agent, of which the connection tells.
void Supervisor::starter_ended(const AgentStarter::EndedStarter& starter) {
  for (const std::string& line : starter_.lines()) output_.say(line);
  if (end_.agents_know() || end_.start_has_failed()) return;
  const std::string command = starter.on_this_machine ? "the agent on this machine" : starter.command;
  for (const int host : starter.hosts) {
    if (job_.is_ready(host)) continue;
    if (elastic_) elastic_->host_gone(host);
    cannot_start(host, fmt::format("{} {}", command, how_it_ended(starter.status)));
  }
  const bool all_came = std::ranges::all_of(starter.hosts, [&](int host) { return job_.is_ready(host); });
  if (all_came && !starter.on_this_machine && starter.status != 0 && !job_.all_ended())
    output_.say(fmt::format("ruedarun: {} {}", command, how_it_ended(starter.status)));
}

void Supervisor::hear(const AgentServer::Heard& heard) {
  if (const auto* message = std::get_if<agents::Message>(&heard.what)) return hear(heard.host, *message);
  agent_gone(heard.host);
  end_.check_all_ended();
}

void Supervisor::agent_gone(int host) {
  const bool early = !job_.all_started_on(host);
  if (host == 0) terminal_.on_end(Clock::now());
  const std::string& name = hosts_[static_cast<std::size_t>(host)].host;
  const std::string why = fmt::format("the agent on {} has gone", name);
  if (elastic_) elastic_->host_gone(host);
  if (page_) page_->note_gone(host);
  for (const int rank : job_.note_gone(host)) fail(rank);
  if (early && !end_.agents_know() && !end_.has_begun()) cannot_start(host, why);  // else it was told to go
}

void Supervisor::cannot_start(int host, const std::string& why) {
  if (does_without(host)) return do_without(host, why);
  fail_start(fmt::format("{}, and {} did not start; {}", why, job_.ranks_on(host), starter_.remedy()));
}

void Supervisor::do_without(int host, const std::string& why) {
  for (const Worker worker : elastic_->cannot_start(host, why))
    if (page_) page_->note_ended(worker, true, fmt::format("worker {} cannot be started: {}", worker, why));
}

std::string Supervisor::words_for(int rank) const {
  return elastic_ ? elastic_->end_in_words(rank) : job_.words_for(rank);
}

// The rank has not ended well.
void Supervisor::fail(int rank) {
  if (page_) page_->note_ended(rank, true, words_for(rank));
  elastic_ ? elastic_->ended(rank, true) : end_.fail(rank);
}

// An agent speaks of the ranks of its own host only.
void Supervisor::hear(int host, const agents::Message& message) {
  const auto is_its = [&](int rank) { return job_.is_rank(rank) && job_.is_on(rank, host); };
  if (const auto* output = std::get_if<agents::Output>(&message)) {
    if (is_its(output->rank)) output_.add(*output);
    if (output->rank == 0 && is_its(0)) terminal_.on_output(Clock::now());
    if (end_.agents_know()) end_.still_ending();
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
    const std::string why =
        fmt::format("{}, on {}", refusal->why, hosts_[static_cast<std::size_t>(host)].host);
    if (does_without(host)) return do_without(host, why);
    job_.note_no_start(host);
    fail_start(why);
  } else if (const auto* terminal = std::get_if<agents::NoTerminal>(&message)) {
    if (terminal_.is_wanted() && is_its(0)) do_without_terminal(terminal->why);
  } else if (const auto* taken = std::get_if<agents::InputTaken>(&message)) {
    input_.note_taken(taken->bytes);
  } else if (const auto* state = std::get_if<agents::WorkerState>(&message)) {
    if (elastic_ && is_its(state->worker)) elastic_->hear(*state);
  } else if (std::holds_alternative<agents::HostLeaves>(message)) {
    if (elastic_) elastic_->host_leaves(host, "its agent has got SIGTERM");
  } else if (const auto* key = std::get_if<agents::KeyTyped>(&message)) {
    if (terminal_.is_wanted() && is_its(0) && !signals_.inherited.ignores(key->signal)) on_key(key->signal);
  } else if (page_) {
    page_->hear(host, message);
  }
}

void Supervisor::launch(int host, const agents::Ready& ready) {
  if (job_.is_ready(host)) return;
  job_.note_ready(host, ready);
  if (page_) page_->note_ready(host);
  if (elastic_ && !elastic_->needs(host)) elastic_->cannot_start(host, "its host is to go");
  if (end_.has_begun() || (elastic_ && !elastic_->needs(host))) return agents_.tell(host, agents::JobOver{});
  const HostRanks& here = hosts_[static_cast<std::size_t>(host)];
  const bool comes_later = here.ranks.empty();
  const bool has_rank_0 = !comes_later && here.ranks.front().rank == 0;
  const bool is_here = starter_.is_here(host);
  agents::Launch order{.ranks = here.ranks,
                       .slots = comes_later ? elastic_->slots_of(host) : static_cast<int>(here.ranks.size()),
                       .host = here.host,
                       .command = options_.command,
                       .environment = start_.environment,
                       .folder = start_.folder,
                       .signals = signals_.inherited,
                       .binding = options_.binding,
                       .forwards_input = has_rank_0 && (!is_here || terminal_.is_wanted()),
                       .hosts_of_processes = process_mapping(hosts_),
                       .name = name_of_job(),
                       .terminal = has_rank_0 ? terminal_.size() : std::nullopt,
                       .needs_terminal = options_.terminal == LaunchOptions::Terminal::always,
                       .elastic = elastic_.has_value(),
                       .one_host = hosts_.size() == 1 && (!elastic_ || elastic_->stays_on_one_host())};
  if (order.forwards_input) input_.begin(terminal_.is_wanted());
  if (has_rank_0) terminal_.on_start();
  job_.note_launch(host);
  agents_.tell(host, order);
  values_.welcome(host);
  if (elastic_) elastic_->welcome(host);
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
  if (page_) page_->note_started(job_.host_of(started.rank), started);
  if (options_.verbose)
    output_.say(fmt::format("ruedarun: rank {} is process {}{}", started.rank, started.process,
                            started.cores.empty() ? "" : ", bound to the cores " + started.cores));
  if (job_.all_started()) start_.deadline.reset();
}

void Supervisor::ended(const agents::Ended& ended) {
  bool failed = job_.note_end(ended);
  if (ended.rank == 0) terminal_.on_end(Clock::now());
  // A rank that was asked to stop, by nothing but --stop-after, has to end well.
  if (ended.status != 0 && end_.is_only_asked()) failed = true;
  if (failed) {
    fail(ended.rank);
  } else {
    if (page_) page_->note_ended(ended.rank, false, words_for(ended.rank));
    if (elastic_) elastic_->ended(ended.rank, false);
  }
  end_.check_all_ended();
}

void Supervisor::move_output() {
  const auto now = Clock::now();
  output_.show_due(now);
  output_.flush();
  const bool full = output_.is_full(now, end_.signal() == 0 ? kReaderTimeout : kLastTimeout);
  agents_.hold_output(full);
  if (full && end_.agents_know()) end_.still_ending();
  end_.check_output();
}

void Supervisor::fail_start(const std::string& why) {
  start_.deadline.reset();
  end_.fail_start(why);
}

void Supervisor::act_on_time() {
  const auto now = Clock::now();
  watch_terminal();
  if (start_.deadline && now >= *start_.deadline) give_up_start();
  if (elastic_) elastic_->act(now);
  if (elastic_ && page_) page_->note_generation(elastic_->generation());
  end_.act(now);
  output_.flush();
}

void Supervisor::give_up_start() {
  start_.deadline.reset();
  for (int host = 0; host < static_cast<int>(hosts_.size()); ++host) {
    if (job_.all_started_on(host)) continue;
    if (!does_without(host))
      return fail_start(fmt::format("{} did not start within {} s; {}, or allow more time by --start-timeout",
                                    job_.missing(), start_.timeout, starter_.remedy()));
    elastic_->host_gone(host);
    do_without(host, fmt::format("it did not start within {} s", start_.timeout));
  }
}

// The agents have gone, or are told to: their janitors see to the rest.
void Supervisor::finish() {
  if (page_) page_->finish(end_.exit_status());
  agents_.close();
  const auto until = Clock::now() + std::chrono::seconds(2);
  while (!starter_.none_runs() && Clock::now() < until) {
    pollfd wait{signals_.waiting.number(), POLLIN, 0};
    ::poll(&wait, 1, 100);
    read_signals();
  }
  kill_descendants(start_.others);
  if (const std::string line = page_ ? page_->write_report() : ""; !line.empty()) output_.say(line);
  end_.say_the_end();
  output_.finish();
  const auto terminals = Clock::now() + kLastTimeout;
  wait_for_reader([&] { return !terminal_.is_raw() || Clock::now() >= terminals; });
  leave_terminal();
  const auto enough = Clock::now() + kLastTimeout;
  // As long as it takes, but after a signal only until then.
  const auto is_enough = [&] { return end_.signal() != 0 && Clock::now() >= enough; };
  wait_for_reader(is_enough);
  end_.check_output();  // the last words may be lost, too
  output_.finish();
  wait_for_reader(is_enough);
}

void Supervisor::wait_for_reader(const std::function<bool()>& is_enough) {
  while (!output_.all_written() && !is_enough()) {
    std::array<pollfd, 2> waits{{{signals_.waiting.number(), POLLIN, 0}, {output_.descriptor(), POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), 1000);
    read_signals();
    output_.is_full(Clock::now(), kReaderTimeout);
    output_.flush();
  }
}

}  // namespace rueda
