// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "launcher/system/processes.h"
#include "launcher/system/ranges.h"
#include "launcher/system/signals.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr auto kTerminateGrace = 1s;  // from SIGTERM to SIGKILL, when the agent ends ranks by itself
constexpr auto kLastOutput = 2s;      // for output at the end, while none comes
constexpr auto kLookAtDying = 1ms;    // between looks
constexpr auto kLongestDying = 2s;    // a process that lives on has called exec()
constexpr auto kFarewell = 5s;        // for ruedarun to take the last words
constexpr std::size_t kMostUnsent = 256 << 10;
constexpr std::size_t kFilesOfRank = 4, kOwnFiles = 32;  // descriptors, about

}  // namespace

bool Agent::run() {
  ::prctl(PR_SET_NAME, "rueda-agent");
  adopt_orphans();
  signals_.waiting = catch_signals({SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2});
  greet();
  while (state_ != State::over) turn();
  kill_descendants();
  part();
  return ordered_;
}

// Sent messages have to arrive: a connection that is closed while the other side still sends loses them.
void Agent::part() {
  supervisor_.close_for_sending();
  const auto until = Clock::now() + kFarewell;
  while (supervisor_.state() == SecureChannel::State::open && Clock::now() < until) {
    pollfd wait{supervisor_.descriptor(), POLLIN, 0};
    ::poll(&wait, 1, 100);
    supervisor_.hear();
  }
}

void Agent::greet() {
  if (state_ != State::meeting || supervisor_.state() != SecureChannel::State::open) return;
  state_ = State::waiting;
  tell(agents::Ready{host_name(), ::getpid()});
}

void Agent::turn() {
  const short out = supervisor_.wants_to_write() ? POLLOUT : 0;
  std::array<pollfd, 7> waits{{{signals_.waiting.number(), POLLIN, 0},
                               {supervisor_.descriptor(), static_cast<short>(POLLIN | out), 0},
                               {streams_.words.descriptor(), POLLIN, 0},
                               {may_read_output() ? streams_.outputs.descriptor() : -1, POLLIN, 0},
                               {input_.descriptor(), POLLOUT, 0},
                               {deaths_.watch ? deaths_.watch->descriptor() : -1, POLLIN, 0},
                               {observer_.descriptor(), POLLIN, 0}}};
  ::poll(waits.data(), waits.size(), milliseconds_to_act());
  if (waits[2].revents != 0)
    for (const std::uint64_t key : streams_.words.ready()) hear_rank(key);
  if (waits[3].revents != 0)
    for (const std::uint64_t key : streams_.outputs.ready()) hear_rank(key);
  if (waits[5].revents != 0)
    for (const std::size_t number : deaths_.watch->take_dead())
      deaths_.dying.push_back({number, Clock::now() + kLongestDying});
  tell_early_ends();
  if (waits[1].revents != 0 || supervisor_.descriptor() < 0) hear_supervisor();
  if (waits[0].revents != 0) read_signals();
  if (const std::uint32_t taken = input_.write(); taken > 0) tell(agents::InputTaken{taken});
  act_on_time();
}

bool Agent::may_read_output() const { return !streams_.held && supervisor_.unsent() < kMostUnsent; }

int Agent::milliseconds_to_act() const {
  std::optional<Clock::time_point> next = keys_.next_time();
  for (const std::optional<Clock::time_point>& time : {act_at_, observer_.next_time()})
    if (time) next = std::min(next.value_or(*time), *time);
  if (!deaths_.dying.empty())
    next = std::min(next.value_or(Clock::time_point::max()), Clock::now() + kLookAtDying);
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

void Agent::hear_supervisor() {
  const std::vector<agents::Message> messages = supervisor_.hear();
  greet();
  for (const agents::Message& message : messages) {
    ordered_ = true;
    obey(message);
  }
  if (supervisor_.state() != SecureChannel::State::closed) return;
  if (state_ == State::running)
    fmt::print(stderr, "ruedarun: the agent on {} has lost ruedarun, and ends its ranks\n", host_name());
  end_ranks();
}

void Agent::obey(const agents::Message& message) {
  if (const auto* launch = std::get_if<agents::Launch>(&message)) {
    if (state_ == State::waiting) start(*launch);
  } else if (const auto* worker = std::get_if<agents::StartWorker>(&message)) {
    if (state_ == State::running) start_ranks({worker->slot});
  } else if (const auto* change = std::get_if<agents::NewGeneration>(&message)) {
    take_generation(change->generation);
  } else if (const auto* due = std::get_if<agents::ChangeDue>(&message)) {
    for (LocalRank& rank : ranks_) rank.channel().tell_change(*due);
  } else if (const auto* retired = std::get_if<agents::Retire>(&message)) {
    if (LocalRank* rank = find(retired->worker)) rank->channel().tell_to_retire();
  } else if (const auto* end = std::get_if<agents::EndWorker>(&message)) {
    end_worker(*end);
  } else if (const auto* lost = std::get_if<agents::PeerEnded>(&message)) {
    if (pmi_) pmi_->note_dead(lost->rank);
    for (LocalRank& rank : ranks_) {
      rank.channel().tell_lost(lost->rank, lost->words);
      rank.notify_of_failure();
    }
  } else if (const auto* wanted = std::get_if<agents::SendSignal>(&message)) {
    for (LocalRank& rank : ranks_) {
      rank.ask_to_end();
      if (wanted->signal == SIGINT && rank.slot().rank == 0 && keys_.rank_0_has_it()) continue;
      wanted->signal == SIGKILL ? rank.signal_all(SIGKILL) : rank.signal_main(wanted->signal);
    }
  } else if (const auto* passed = std::get_if<agents::PassOn>(&message)) {
    const bool for_all = passed->signal == SIGTSTP || passed->signal == SIGCONT;
    for (LocalRank& rank : ranks_)
      for_all ? rank.signal_all(passed->signal) : rank.signal_main(passed->signal);
  } else if (const auto* put = std::get_if<agents::Put>(&message)) {
    take_value(*put);
  } else if (std::holds_alternative<agents::BarrierOut>(message)) {
    if (pmi_) answer(pmi_->leave_barrier());
  } else if (const auto* output = std::get_if<agents::HoldOutput>(&message)) {
    streams_.held = output->hold;
  } else if (const auto* input = std::get_if<agents::Input>(&message)) {
    take_input(input->text);
  } else if (const auto* watch = std::get_if<agents::Watch>(&message)) {
    observer_.obey(*watch);
  } else if (const auto* asked = std::get_if<agents::Request>(&message)) {
    ask_ranks(*asked);
  } else if (const auto* resize = std::get_if<agents::Resize>(&message)) {
    if (input_.terminal() != nullptr) input_.terminal()->resize(resize->size);
  } else if (std::holds_alternative<agents::JobOver>(message)) {
    clear_up();
  }
}

// Null where it is none of this host.
LocalRank* Agent::find(int number) {
  const auto found =
      std::ranges::find_if(ranks_, [&](const LocalRank& rank) { return rank.slot().rank == number; });
  return found == ranks_.end() ? nullptr : &*found;
}

void Agent::end_worker(const agents::EndWorker& order) {
  LocalRank* rank = find(order.worker);
  if (rank == nullptr) return;
  if (!order.is_loss) rank->ask_to_end();
  rank->signal_all(SIGKILL);
}

void Agent::start(const agents::Launch& launch) {
  state_ = State::running;
  order_.emplace(launch, cores_of_ranks(launch.binding, launch.slots), allow_many_descriptors());
  if (launch.elastic) {
    deaths_.watch.emplace();
  } else {
    pmi_.emplace(PmiServer::Job{.size = launch.ranks.front().size,
                                .ranks_here = static_cast<int>(launch.ranks.size()),
                                .name = launch.name,
                                .process_mapping = launch.hosts_of_processes,
                                .put =
                                    [this](std::string key, std::string value) {
                                      tell(agents::Put{std::move(key), std::move(value)});
                                    },
                                .enter_barrier = [this] { tell(agents::BarrierIn{}); }});
  }
  start_ranks(launch.ranks);
  pass_notice_on();
}

void Agent::start_ranks(const std::vector<SlotInfo>& slots) {
  const std::size_t all = ranks_.size() + slots.size();
  try {
    for (const SlotInfo& slot : slots) start_rank(slot);
  } catch (const std::system_error& error) {
    const bool few = error.code() == std::errc::too_many_files_open;
    tell(agents::CannotStart{
        fmt::format("{}{}", error.what(),
                    few ? fmt::format("; {} ranks of a host need {} open files: raise ulimit -n", all,
                                      kFilesOfRank * all + kOwnFiles)
                        : "")});
  }
}

void Agent::start_rank(const SlotInfo& slot) {
  const auto local = static_cast<std::size_t>(slot.local_rank);
  const std::vector<int> cores = local < order_->cores.size() ? order_->cores[local] : std::vector<int>();
  LocalRank::Start start{
      .launch = order_->launch, .input = {}, .cores = cores, .open_files = order_->open_files};
  if (slot.rank != 0) {
    start.input = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  } else if ((start.terminal = open_terminal())) {
    input_.open(start.terminal);
  } else {
    start.input =
        order_->launch.forwards_input ? input_.open() : Descriptor(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  }
  const std::size_t number = ranks_.size();
  LocalRank& rank = ranks_.emplace_back(slot, std::move(start));
  const auto key = [&](Source source) { return number << 2 | static_cast<std::uint64_t>(source); };
  streams_.words.add(rank.channel().descriptor(), key(Source::line));
  if (rank.pmi() >= 0) streams_.words.add(rank.pmi(), key(Source::pmi));
  streams_.outputs.add(rank.output(0), key(Source::output));
  if (rank.output(1) >= 0) streams_.outputs.add(rank.output(1), key(Source::errors));
  if (deaths_.watch) deaths_.watch->add(number, rank.futex());
  observer_.add_rank(slot.rank);
  observer_.note_process(slot.rank, rank.process());
  tell(agents::Started{slot.rank, rank.process(), in_ranges(cores)});
}

// Null where rank 0 gets none.
std::shared_ptr<PseudoTerminal> Agent::open_terminal() {
  const agents::Launch& launch = order_->launch;
  if (!launch.terminal) return nullptr;
  try {
    return std::make_shared<PseudoTerminal>(*launch.terminal);
  } catch (const std::system_error& error) {
    if (launch.needs_terminal) throw;
    tell(agents::NoTerminal{error.what()});
    return nullptr;
  }
}

void Agent::take_generation(const Generation& generation) {
  if (!order_) return;
  order_->generation = generation;
  for (LocalRank& rank : ranks_) rank.channel().tell_generation(generation);
}

void Agent::rank_0_has_ended() {
  if (keys_.on_end_of_rank_0()) tell(agents::KeyTyped{SIGINT});
  input_.leave_terminal();
}

// For rank 0, the first of its host.
void Agent::take_input(const std::string& text) {
  if (text.empty()) return input_.end();
  if (input_.terminal() == nullptr || ranks_.empty()) return input_.add(text);
  LocalRank& rank = ranks_.front();
  const TerminalKeys::Sorted sorted =
      keys_.sort(text, input_.terminal()->modes(), rank.has_the_keys(), Clock::now());
  input_.add(sorted.text);
  input_.skip(text.size() - sorted.text.size());
  if (sorted.interrupts_rank_0) rank.signal_main(SIGINT);
  for (const int signal : sorted.signals_of_job) tell(agents::KeyTyped{signal});
}

void Agent::hear_rank(std::uint64_t key) {
  LocalRank& rank = ranks_[key >> 2];
  switch (static_cast<Source>(key & 3)) {
    case Source::line:
      for (RankChannel::Request& each : rank.channel().hear()) request(key >> 2, each);
      return;
    case Source::pmi:
      for (const std::string& line : rank.read_pmi())
        answer(pmi_->hear(rank.slot().local_rank, line, values_.all()));
      if (pmi_->aborted(rank.slot().local_rank)) rank.signal_all(SIGKILL);
      return;
    case Source::output: static_cast<void>(forward_output(rank, 0)); return;
    case Source::errors: static_cast<void>(forward_output(rank, 1)); return;
  }
}

bool Agent::forward_output(LocalRank& rank, std::size_t stream) {
  const std::string text = rank.read_output(stream);
  if (text.empty()) return false;
  for (std::size_t begin = 0; begin < text.size(); begin += agents::kLongestOutput)
    tell(agents::Output{rank.slot().rank, static_cast<agents::Stream>(stream),
                        text.substr(begin, agents::kLongestOutput)});
  if (state_ == State::clearing) act_at_ = Clock::now() + kLastOutput;
  return true;
}

// As much as is there now, and there is room for.
void Agent::forward_last_output(LocalRank& rank) {
  constexpr int kPieces = 16;
  for (std::size_t stream = 0; stream < LocalRank::kStreams; ++stream)
    for (int i = 0; i < kPieces && may_read_output(); ++i)
      if (!forward_output(rank, stream)) break;
}

// SIGTERM is the notice of a host that is to go: of a cloud, or of Slurm.
void Agent::read_signals() {
  while (const int signal = next_signal(signals_.waiting))
    if (signal == SIGTERM) signals_.is_to_go = true;
  pass_notice_on();
  reap();
}

// It may come before the order does.
void Agent::pass_notice_on() {
  if (!order_ || !std::exchange(signals_.is_to_go, false)) return;
  if (order_->launch.elastic) tell(agents::HostLeaves{});
}

void Agent::reap() {
  int status = 0;
  for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (WIFSTOPPED(status)) continue;  // for the stacks of its threads
    for (LocalRank& rank : ranks_) {
      if (rank.process() != ended) continue;
      if (deaths_.watch) rank.end_group();  // another one may take its slot at once
      rank.note_end();
      tell_end(rank, status);
    }
  }
}

// Their memory is not free yet, so waitpid() has not told of them. Of a process with several threads it may
// take a moment until its status is there. One that has called exec() lives on.
void Agent::tell_early_ends() {
  const auto now = Clock::now();
  std::erase_if(deaths_.dying, [&](const Dying& each) {
    LocalRank& rank = ranks_[each.number];
    if (rank.process() == 0 || now > each.until) return true;
    const std::optional<int> status = status_at_exit(rank.process());
    if (status && *status != 0) tell_end(rank, *status);
    return status.has_value();
  });
}

// Output of a rank comes before the news of its end, as far as there is room.
void Agent::tell_end(LocalRank& rank, int status) {
  if (rank.end_is_told()) return;
  rank.note_told_end();
  observer_.note_end(rank.slot().rank, supervisor_);
  if (rank.slot().rank == 0) rank_0_has_ended();
  forward_last_output(rank);
  const int local_rank = rank.slot().local_rank;
  if (const auto aborted = pmi_ ? pmi_->aborted(local_rank) : std::nullopt) status = W_EXITCODE(*aborted, 0);
  const bool in_mpi = pmi_ && pmi_->is_between_init_and_finalize(local_rank);
  const TrainingFailure failure = observer_.recent_failure(rank.slot().rank);
  tell(agents::Ended{rank.slot().rank, status, rank.asked(), in_mpi, failure.words, failure.lost_at_ns != 0});
}

void Agent::request(std::size_t number, RankChannel::Request& request) {
  using Kind = RankChannel::Request::Kind;
  LocalRank& rank = ranks_[number];
  switch (request.kind) {
    case Kind::put: return tell(agents::Put{request.key, request.value});
    case Kind::get:
      if (const std::string* value = values_.get(static_cast<int>(number), request.key))
        rank.channel().tell_value(request.key, *value);
      return;
    case Kind::recorder:
      return observer_.take_recorder(rank.slot().rank, std::move(request.file), request.offset,
                                     request.value);
    case Kind::stalled: return tell(agents::Stalled{rank.slot().rank});
    case Kind::timelines: return observer_.take_requests(rank.slot().rank, request.file);
    case Kind::training:
      observer_.take_page(rank.slot().rank, request.file);
      if (const pid_t member = rank.channel().member()) observer_.note_process(rank.slot().rank, member);
      return;
    case Kind::state:
      using State = agents::WorkerState::Kind;
      // The packet that told the newest may not have had room.
      if (order_->generation && (request.state.kind == State::fresh || request.state.kind == State::ready))
        rank.channel().tell_generation(*order_->generation);
      return tell(agents::WorkerState{rank.slot().rank, request.state.kind, request.state.generation});
  }
}

// A rank may be a shell that has started the program.
void Agent::ask_ranks(const agents::Request& request) {
  for (LocalRank& rank : ranks_) {
    const pid_t main = rank.channel().main_process();
    const pid_t process = main != 0 ? main : rank.process();
    observer_.note_main_process(rank.slot().rank, process, rank.channel().python_of(process));
  }
  observer_.ask(request);
}

void Agent::take_value(const agents::Put& put) {
  for (const int number : values_.put(put.key, put.value))
    ranks_[static_cast<std::size_t>(number)].channel().tell_value(put.key, put.value);
}

void Agent::answer(const std::vector<PmiServer::Answer>& answers) {
  for (const PmiServer::Answer& each : answers)
    ranks_[static_cast<std::size_t>(each.local_rank)].answer_pmi(each.line);
}

void Agent::act_on_time() {
  if (keys_.next_time() && keys_.interrupts_job(Clock::now(), input_.terminal()->modes()))
    tell(agents::KeyTyped{SIGINT});
  observer_.act(Clock::now(), supervisor_);
  if (state_ == State::clearing && supervisor_.unsent() == 0 && !observer_.has_answers() &&
      !observer_.is_telling() && std::ranges::all_of(ranks_, &LocalRank::output_is_over))
    state_ = State::over;
  const bool none_runs = std::ranges::all_of(ranks_, [](const LocalRank& r) { return r.process() == 0; });
  if (state_ == State::ending && none_runs) state_ = State::over;
  if (!act_at_ || Clock::now() < *act_at_) return;
  if (state_ == State::clearing && (streams_.held || supervisor_.unsent() > 0)) {
    act_at_ = Clock::now() + kLastOutput;  // somebody will read it
    return;
  }
  act_at_.reset();
  if (state_ == State::ending)
    for (LocalRank& rank : ranks_) rank.signal_all(SIGKILL);
  if (state_ == State::clearing) state_ = State::over;
}

void Agent::end_ranks() {
  if (state_ != State::running && state_ != State::ending) state_ = State::over;
  if (state_ != State::running) return;
  state_ = State::ending;
  observer_.obey({});
  for (LocalRank& rank : ranks_) rank.signal_main(SIGTERM);
  act_at_ = Clock::now() + kTerminateGrace;
}

void Agent::clear_up() {
  if (state_ == State::waiting) state_ = State::over;
  if (state_ != State::running) return;
  state_ = State::clearing;
  observer_.end();
  kill_descendants();
  for (LocalRank& rank : ranks_) rank.note_end();
  act_at_ = Clock::now() + kLastOutput;
}

}  // namespace rueda
