// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "launcher/environment.h"
#include "launcher/hydra.h"
#include "launcher/processes.h"
#include "launcher/stdin_handover.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr auto kFailureGrace = 2s;       // for the other ranks to say what they see, after one has failed
constexpr auto kInterruptGrace = 1s;     // from Ctrl-C to SIGTERM
constexpr auto kTerminateGrace = 700ms;  // from SIGTERM to SIGKILL
constexpr std::size_t kMostSaid = 64 << 10;

std::string random_token() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

// Signals come as bytes to read, for the one loop; a broken pipe as an error of write.
Descriptor catch_signals() {
  sigset_t caught;
  ::sigemptyset(&caught);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::sigaddset(&caught, signal);
  ::sigprocmask(SIG_BLOCK, &caught, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return Descriptor(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
}

int status_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::string in_words(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
}

}  // namespace

Supervisor::Supervisor(const LaunchOptions& options, std::string mpiexec)
    : options_(options),
      mpiexec_path_(std::move(mpiexec)),
      token_(random_token()),
      notes_(token_),
      output_(STDOUT_FILENO, options.ranks, options.prefix),
      errors_(STDERR_FILENO, options.ranks, options.prefix),
      output_stream_(token_,
                     [this](int rank, std::string_view text) {
                       if (rank != LabelledStream::kMpiexec) return output_.add(rank, text);
                       if (mpiexec_said_.size() < kMostSaid) mpiexec_said_ += text;
                     }),
      error_stream_(token_, [this](int rank, std::string_view text) { errors_.add(rank, text); }) {
  if (options_.output_folder.empty()) return;
  output_.keep_copies(options_.output_folder, "stdout");
  errors_.keep_copies(options_.output_folder, "stderr");
}

int Supervisor::run() {
  adopt_orphans();
  signals_ = catch_signals();
  export_job_environment(options_.hosts, notes_.address());
  offer_standard_input();
  start(make_pipe(), make_pipe());
  while (!mpiexec_status_) turn();
  finish();
  return exit_status();
}

void Supervisor::start(Pipe output, Pipe errors) {
  std::vector<std::string> command =
      mpiexec_command(mpiexec_path_, options_, LabelledStream::label_pattern(token_));
  if (options_.verbose) errors_.add_line(fmt::format("ruedarun: starting {}", fmt::join(command, " ")));
  errors_.flush();
  Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  pid_t supervisor = ::getpid();
  mpiexec_ = ::fork();
  if (mpiexec_ == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != supervisor) ::_exit(1);
    ::dup2(nothing.number(), STDIN_FILENO);
    ::dup2(output.write_end.number(), STDOUT_FILENO);
    ::dup2(errors.write_end.number(), STDERR_FILENO);
    restore_signals();
    execute(command);
    fmt::print(stderr, "ruedarun: cannot start '{}': {}\n", mpiexec_path_, std::strerror(errno));
    ::_exit(127);
  }
  if (mpiexec_ < 0) throw std::system_error(errno, std::generic_category(), "cannot fork");
  output_pipe_ = std::move(output.read_end);
  error_pipe_ = std::move(errors.read_end);
  set_non_blocking(output_pipe_.number());
  set_non_blocking(error_pipe_.number());
}

void Supervisor::turn() {
  std::array<pollfd, 4> waits{{{signals_.number(), POLLIN, 0},
                               {notes_.descriptor(), POLLIN, 0},
                               {output_pipe_.number(), POLLIN, 0},
                               {error_pipe_.number(), POLLIN, 0}}};
  ::poll(waits.data(), waits.size(), milliseconds_to_next_act());
  if (waits[0].revents != 0) read_signals();
  if (waits[1].revents != 0) read_notes();
  if (waits[2].revents != 0) read_output(output_pipe_, output_stream_);
  if (waits[3].revents != 0) read_output(error_pipe_, error_stream_);
  bool taken = output_.flush();
  errors_.flush();
  if (!taken && signal_ == 0) on_signal(SIGPIPE);
  act_on_time();
}

void Supervisor::read_signals() {
  signalfd_siginfo came{};
  while (::read(signals_.number(), &came, sizeof came) == sizeof came) {
    if (came.ssi_signo == SIGCHLD) {
      reap();
    } else {
      on_signal(static_cast<int>(came.ssi_signo));
    }
  }
}

void Supervisor::on_signal(int signal) {
  auto now = Clock::now();
  if (signal_ != 0) {
    kill_at_ = now;  // asked a second time
    return;
  }
  signal_ = signal;
  if (signal == SIGINT) ::kill(mpiexec_, SIGINT);
  terminate_at_ = signal == SIGINT ? now + kInterruptGrace : now;
}

void Supervisor::reap() {
  int status = 0;
  for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;)
    if (ended == mpiexec_) mpiexec_status_ = status;
}

bool Supervisor::read_output(Descriptor& from, LabelledStream& into) {
  std::string_view bytes = read_some(from.number());
  bool ended = bytes.empty() && errno != EAGAIN && errno != EINTR;
  into.feed(bytes);
  if (ended) from.close();
  return !bytes.empty();
}

void Supervisor::read_notes() {
  while (std::optional<Note> note = notes_.take()) {
    ++ended_ranks_;
    if (note->status != 0 && !failure_ && signal_ == 0) fail(*note);
  }
  if (failure_ && ended_ranks_ == options_.ranks && terminate_at_) terminate_at_ = Clock::now();
}

void Supervisor::fail(const Note& note) {
  failure_ = note;
  errors_.add_line(fmt::format("ruedarun: rank {} {}", note.rank, in_words(note.status)));
  if (!terminate_at_) terminate_at_ = Clock::now() + kFailureGrace;
}

void Supervisor::act_on_time() {
  auto now = Clock::now();
  if (terminate_at_ && now >= *terminate_at_) {
    ::kill(mpiexec_, SIGTERM);
    terminate_at_.reset();
    if (!kill_at_) kill_at_ = now + kTerminateGrace;
  }
  if (kill_at_ && now >= *kill_at_) {
    kill_at_ = now + kTerminateGrace;
    kill_descendants();
    reap();
    if (!mpiexec_status_) mpiexec_status_ = SIGKILL;
  }
}

int Supervisor::milliseconds_to_next_act() const {
  if (!terminate_at_ && !kill_at_) return -1;
  auto next =
      std::min(terminate_at_.value_or(Clock::time_point::max()), kill_at_.value_or(Clock::time_point::max()));
  auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

// mpiexec has ended, and what it wrote is in the pipes; processes left may still hold them open.
void Supervisor::finish() {
  while (output_pipe_ && read_output(output_pipe_, output_stream_)) output_.flush();
  while (error_pipe_ && read_output(error_pipe_, error_stream_)) errors_.flush();
  output_stream_.finish();
  error_stream_.finish();
  read_notes();
  kill_descendants();
  output_.finish();
  bool unexplained = status_code(*mpiexec_status_) != 0 && !failure_ && signal_ == 0;
  if (unexplained || options_.verbose) errors_.add_line(mpiexec_said_);
  if (unexplained) errors_.add_line(fmt::format("ruedarun: mpiexec {}", in_words(*mpiexec_status_)));
  if (signal_ != 0 && signal_ != SIGPIPE)
    errors_.add_line(fmt::format("ruedarun: ended by {}", ::strsignal(signal_)));
  errors_.finish();
  litter_.sweep();
}

int Supervisor::exit_status() const {
  if (signal_ != 0) return 128 + signal_;
  return status_code(failure_ ? failure_->status : *mpiexec_status_);
}

}  // namespace rueda
