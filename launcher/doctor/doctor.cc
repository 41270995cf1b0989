// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/doctor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "launcher/doctor/checks.h"
#include "launcher/doctor/examined_host.h"
#include "launcher/doctor/host_starter.h"
#include "launcher/doctor/link_schedule.h"
#include "launcher/job/environment.h"
#include "launcher/start/launch_method.h"
#include "launcher/supervisor/agent_server.h"
#include "launcher/system/processes.h"
#include "launcher/system/signals.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kClockRounds = 8;
constexpr int kMostPartners = 15;  // up to 16 hosts, each measures with all others
constexpr auto kFactsTimeout = 90s;
constexpr auto kReachTimeout = 10s;                 // a host itself takes 4 s
constexpr auto kStepTimeout = 15s;                  // of one measurement
constexpr auto kAllLinks = 8s;                      // of sending and receiving, all measurements together
constexpr auto kLinksTimeout = 20s;                 // then the rest is not measured
constexpr auto kShortest = 20ms, kLongest = 300ms;  // each direction
constexpr auto kFarewell = 2s;
constexpr int kMostCards = 64;
constexpr const char* kFewProcesses =
    "Look at `ulimit -u`, `ulimit -n` and free memory of this host, which starts all parts.";
constexpr auto kRecovery = 2s;  // of a host that was the other side of a failed measurement

// What is known of a host beside its facts.
struct Progress {
  pid_t process = 0;  // of this host, below ruedarun
  bool ready = false;
  bool gone = false;
  std::int32_t rounds = 0;  // of the clock
  Clock::time_point asked;
  bool busy = false;  // it connects or measures
  Clock::time_point free_from{};

  bool is_over(const ExaminedHost& host) const { return host.facts || gone; }
};

// Purpose: starts ruedarun on each host as a job does, asks for facts, has connections measured. Owned by the
// main thread.
class Doctor {
 public:
  Doctor(const LaunchOptions& options, const LaunchMethod& method, const Config& config);

  Examination run();
  int signal() const { return signal_; }

 private:
  void start();
  void start_elsewhere(const std::vector<int>& hosts);
  void lose(const HostStarter::Lost& lost) { lose(lost.host, lost.why, lost.remedy); }
  void start_here(int host);
  void wait(const std::function<bool()>& is_over, Clock::time_point until);
  void hear(const AgentServer::Heard& heard);
  void hear(int host, const agents::Message& message);
  void take_measurement(int host, const agents::LinkMeasured& measured);
  void take_time(int host, const agents::TellTime& time);
  void examine(int host);
  void lose(int host, const std::string& why, const std::string& remedy);
  void read_signals();
  void reap();
  void name_silent_hosts();
  void connect_all();
  void measure_all();
  void measure(const Round& round, int card, std::chrono::milliseconds time, Clock::time_point until);
  bool is_connected(const HostPair& pair, int card) const;
  void part();
  bool nobody_is_busy() const;

  ExaminedHost& host(int number) { return result_.hosts[static_cast<std::size_t>(number)]; }
  Progress& progress(int number) { return progress_[static_cast<std::size_t>(number)]; }

  const LaunchOptions& options_;
  const LaunchMethod& method_;
  const Config& config_;
  const SignalState inherited_ = signal_state();
  const Descriptor signals_ = catch_signals_of_job(inherited_);
  const AuthenticationKey key_ = random_key();  // of connections between hosts
  Examination result_;
  std::vector<Progress> progress_;
  AgentServer agents_;
  HostStarter starter_;
  std::vector<int> examined_;  // hosts with facts
  int signal_ = 0;
};

std::vector<std::string> names_in(const LaunchMethod& method) {
  std::vector<std::string> names;
  for (const HostSlots& host : method.hosts)
    if (std::ranges::find(names, host.name) == names.end()) names.push_back(host.name);
  if (names.empty()) names.push_back(host_name());
  return names;
}

Doctor::Doctor(const LaunchOptions& options, const LaunchMethod& method, const Config& config)
    : options_(options),
      method_(method),
      config_(config),
      agents_(names_in(method)),
      starter_(options, method, names_in(method)) {
  result_.folder = std::filesystem::current_path().string();
  result_.program = options.command;
  result_.network = config.network;
  result_.has_slots = options.hosts.find(':') != std::string::npos ||
                      std::ranges::any_of(method.hosts, [](const HostSlots& host) { return host.slots > 1; });
  for (const std::string& name : names_in(method)) result_.hosts.push_back({.name = name});
  progress_.resize(result_.hosts.size());
  if (options.ranks == 0) return;
  for (const HostRanks& placed : place_ranks(options.ranks, method.hosts, host_name()))
    for (ExaminedHost& each : result_.hosts)
      if (each.name == placed.host) each.ranks += static_cast<int>(placed.ranks.size());
}

Examination Doctor::run() {
  adopt_orphans();
  const auto begin = Clock::now();
  start();
  const auto limit = std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(config_.start_timeout));
  const auto all = [this](const auto& is_done) {
    return [this, is_done] {
      for (std::size_t i = 0; i < progress_.size(); ++i)
        if (!is_done(progress_[i], result_.hosts[i])) return false;
      return true;
    };
  };
  wait(all([](const Progress& each, const ExaminedHost&) { return each.ready || each.gone; }), begin + limit);
  // The others do not come any more.
  wait(all([](const Progress& each, const ExaminedHost& host) { return !each.ready || each.is_over(host); }),
       Clock::now() + kFactsTimeout);
  name_silent_hosts();
  for (std::size_t i = 0; i < progress_.size(); ++i)
    if (result_.hosts[i].facts && !progress_[i].gone) examined_.push_back(static_cast<int>(i));
  if (examined_.size() > 1 && signal_ == 0) connect_all();
  if (examined_.size() > 1 && signal_ == 0) measure_all();
  part();
  return std::move(result_);
}

void Doctor::start() {
  std::vector<int> elsewhere;
  for (int number = 0; number < static_cast<int>(result_.hosts.size()); ++number) {
    if (!starter_.is_here(number)) {
      elsewhere.push_back(number);
      continue;
    }
    try {
      start_here(number);
    } catch (const std::exception& error) {
      lose(number, fmt::format("ruedarun cannot start its part here: {}.", error.what()), kFewProcesses);
    }
  }
  if (!elsewhere.empty()) start_elsewhere(elsewhere);
}

void Doctor::start_elsewhere(const std::vector<int>& hosts) {
  try {
    for (const HostStarter::Lost& lost : starter_.start(agents_.invite(), hosts)) lose(lost);
  } catch (const std::exception& error) {
    for (const int number : hosts)
      lose(number, fmt::format("It cannot be asked: {}.", error.what()), kFewProcesses);
  }
}

// Before ruedarun raises its limit of open files: the facts tell of the user's.
void Doctor::start_here(int number) {
  ExaminedChild child = fork_examined_host(number, agents_.key(), inherited_);
  progress(number).process = child.process;
  agents_.take_in(std::move(child.socket));
}

void Doctor::wait(const std::function<bool()>& is_over, Clock::time_point until) {
  while (signal_ == 0 && !is_over() && Clock::now() < until) {
    std::vector<pollfd> waits{{signals_.number(), POLLIN, 0}, {agents_.descriptor(), POLLIN, 0}};
    starter_.add_to(waits);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    ::poll(waits.data(), waits.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000)));
    for (const AgentServer::Heard& heard : agents_.turn()) hear(heard);
    read_signals();
    starter_.pass_lines_on();
  }
}

void Doctor::hear(const AgentServer::Heard& heard) {
  if (const auto* message = std::get_if<agents::Message>(&heard.what)) return hear(heard.host, *message);
  lose(heard.host, "Its part of ruedarun has ended before it answered.",
       "Look at `dmesg` and the messages above.");
}

void Doctor::hear(int number, const agents::Message& message) {
  if (std::holds_alternative<agents::Ready>(message)) {
    progress(number).ready = true;
    progress(number).asked = Clock::now();
    agents_.tell(number, agents::AskTime{0});
  } else if (const auto* time = std::get_if<agents::TellTime>(&message)) {
    take_time(number, *time);
  } else if (const auto* facts = std::get_if<agents::HostFacts>(&message)) {
    host(number).facts = *facts;
  } else if (const auto* reached = std::get_if<agents::Reached>(&message)) {
    progress(number).busy = false;
    for (const agents::ReachedCard& card : reached->cards)
      if (static_cast<std::size_t>(card.host) < result_.hosts.size() && card.card < kMostCards &&
          card.peer_card < kMostCards)
        result_.tried.push_back({number, card.host, card.card, card.peer_card, card.problem});
  } else if (const auto* measured = std::get_if<agents::LinkMeasured>(&message)) {
    progress(number).busy = false;
    take_measurement(number, *measured);
  }
}

// One that fails may leave its other side waiting.
void Doctor::take_measurement(int number, const agents::LinkMeasured& measured) {
  const auto tried = std::ranges::find_if(result_.tried, [&](const TriedLink& link) {
    return link.from == number && link.to == measured.host && link.card == measured.card;
  });
  if (tried == result_.tried.end()) return;
  result_.links.push_back({number, measured.host, measured.card, tried->peer_card, measured.round_trip,
                           measured.sent, measured.received, measured.problem});
  if (!measured.problem.empty()) progress(measured.host).free_from = Clock::now() + kRecovery;
}

// The shortest round trip bounds the error best.
void Doctor::take_time(int number, const agents::TellTime& time) {
  Progress& state = progress(number);
  if (time.round != state.rounds) return;
  const auto now = Clock::now();
  const std::int64_t trip = std::chrono::nanoseconds(now - state.asked).count();
  const auto here = std::chrono::system_clock::now().time_since_epoch();
  const ClockDifference seen{time.nanoseconds - (std::chrono::nanoseconds(here).count() - trip / 2),
                             trip / 2};
  std::optional<ClockDifference>& best = host(number).clock;
  if (!best || seen.bound < best->bound) best = seen;
  if (++state.rounds == kClockRounds) return examine(number);
  state.asked = Clock::now();
  agents_.tell(number, agents::AskTime{state.rounds});
}

void Doctor::examine(int number) {
  std::vector<std::string> names;
  for (const ExaminedHost& each : result_.hosts) names.push_back(each.name);
  agents_.tell(number, agents::Examine{.host = number,
                                       .key = key_,
                                       .hosts = std::move(names),
                                       .cards = config_.rails,
                                       .folder = result_.folder,
                                       .environment = job_environment(),
                                       .program = options_.command});
}

void Doctor::lose(int number, const std::string& why, const std::string& remedy) {
  progress(number).gone = true;
  progress(number).busy = false;
  if (host(number).facts || !host(number).silence.empty()) return;
  host(number).silence = why;
  host(number).remedy = remedy;
}

void Doctor::read_signals() {
  while (const int signal = next_signal(signals_)) {
    if (signal == SIGCHLD) reap();
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) signal_ = signal;
  }
}

void Doctor::reap() {
  int status = 0;
  for (pid_t process; (process = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    for (const HostStarter::Lost& lost : starter_.note_end(process, status))
      if (!progress(lost.host).ready) lose(lost);  // otherwise its connection tells
    for (int number = 0; number < static_cast<int>(progress_.size()); ++number)
      if (progress(number).process == process)
        lose(number, fmt::format("Its part of ruedarun {}.", how_it_ended(status)),
             "Look at `dmesg` and the messages above.");
  }
}

void Doctor::name_silent_hosts() {
  for (int number = 0; number < static_cast<int>(progress_.size()); ++number) {
    if (host(number).facts || progress(number).gone) continue;
    if (progress(number).ready)
      lose(number, fmt::format("It has not told its facts within {} s.", kFactsTimeout.count()),
           "Look for a file system that hangs: `df`, and names that take long: `getent hosts NAME`.");
    else
      lose(number, fmt::format("It has not answered within {} s.", config_.start_timeout),
           fmt::format("{}, or allow more time by --start-timeout.", capitalized(method_.remedy)));
  }
}

bool Doctor::nobody_is_busy() const { return std::ranges::none_of(progress_, &Progress::busy); }

void Doctor::connect_all() {
  const auto count = static_cast<int>(examined_.size());
  const std::vector<Round> rounds = tournament(count, kMostPartners);
  if (count - 1 > kMostPartners) result_.partners = static_cast<int>(rounds.size());
  std::vector<agents::ReachHosts> wanted(examined_.size());
  for (const Round& round : rounds)
    for (const auto& [a, b] : round)
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        const int peer = examined_[static_cast<std::size_t>(to)];
        wanted[static_cast<std::size_t>(from)].peers.push_back({peer, host(peer).facts->network.cards});
      }
  for (std::size_t i = 0; i < examined_.size(); ++i) {
    progress(examined_[i]).busy = true;
    agents_.tell(examined_[i], wanted[i]);
  }
  wait([this] { return nobody_is_busy(); }, Clock::now() + kReachTimeout);
}

bool Doctor::is_connected(const HostPair& pair, int card) const {
  return std::ranges::any_of(result_.tried, [&](const TriedLink& link) {
    return link.from == pair.first && link.to == pair.second && link.card == card && link.problem.empty();
  });
}

// Card by card, so that none measures twice at one time.
void Doctor::measure_all() {
  std::size_t cards = 0;
  for (const int each : examined_) cards = std::max(cards, host(each).facts->network.cards.size());
  std::vector<Round> rounds = tournament(static_cast<int>(examined_.size()), kMostPartners);
  for (Round& round : rounds)
    for (auto& [a, b] : round)
      a = examined_[static_cast<std::size_t>(a)], b = examined_[static_cast<std::size_t>(b)];
  const auto steps = static_cast<std::int64_t>(std::max<std::size_t>(1, rounds.size() * cards));
  const auto time = std::clamp<std::chrono::milliseconds>(std::chrono::milliseconds(kAllLinks) / (2 * steps),
                                                          kShortest, kLongest);
  const auto until = Clock::now() + kLinksTimeout;
  std::size_t connected = 0;
  for (const Round& round : rounds)
    for (std::size_t card = 0; card < cards && signal_ == 0; ++card) {
      const auto number = static_cast<int>(card);
      connected += static_cast<std::size_t>(
          std::ranges::count_if(round, [&](const HostPair& pair) { return is_connected(pair, number); }));
      if (Clock::now() < until) measure(round, number, time, until);
    }
  result_.unmeasured = static_cast<int>(connected - std::min(connected, result_.links.size()));
}

void Doctor::measure(const Round& round, int card, std::chrono::milliseconds time, Clock::time_point until) {
  auto free_from = Clock::time_point::min();
  for (const auto& [from, to] : round)
    free_from = std::max({free_from, progress(from).free_from, progress(to).free_from});
  wait([] { return false; }, std::min(until, free_from));
  for (const auto& [from, to] : round) {
    // One that does not come back in time measures no more.
    const bool free =
        !progress(from).busy && !progress(from).gone && !progress(to).busy && !progress(to).gone;
    if (!free || !is_connected({from, to}, card)) continue;
    progress(from).busy = true;
    agents_.tell(from, agents::MeasureLink{to, card, static_cast<std::int32_t>(time.count())});
  }
  wait([this] { return nobody_is_busy(); }, std::min(until, Clock::now() + kStepTimeout));
}

void Doctor::part() {
  agents_.tell_all(agents::JobOver{});
  const int before = std::exchange(signal_, 0);
  wait([this] { return agents_.all_gone() && starter_.none_runs(); }, Clock::now() + kFarewell);
  if (signal_ == 0) signal_ = before;
  agents_.close();
  kill_descendants();
}

// A question would wait for an answer that nobody sees.
LaunchMethod without_questions(LaunchMethod method) {
  if (method.by == LaunchMethod::By::remote_shell &&
      std::filesystem::path(method.words.front()).filename() == "ssh")
    method.words.insert(method.words.begin() + 1, {"-o", "BatchMode=yes"});
  return method;
}

}  // namespace

int examine_hosts(const LaunchOptions& options, const Config& config) {
  const LaunchMethod method = without_questions(launch_method(options, surroundings()));
  Doctor doctor(options, method, config);
  const Examination examination = doctor.run();
  if (doctor.signal() != 0) return 128 + doctor.signal();
  const std::vector<Finding> findings = in_order(findings_of(examination));
  fmt::print("{}",
             options.json ? to_json(findings, examination) : to_text(findings, examination.hosts.size()));
  return has_error(findings) ? 1 : 0;
}

}  // namespace rueda
