// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <ctime>

namespace rueda {
namespace {

constexpr int kMostSignals = 64;

std::uint64_t bit_of(int signal) { return std::uint64_t{1} << (signal - 1); }

Descriptor catch_set(const sigset_t& caught) {
  for (int signal = 1; signal <= kMostSignals; ++signal)
    if (::sigismember(&caught, signal) == 1) ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_BLOCK, &caught, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return Descriptor(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

// The C library keeps two signals to itself: it answers with an error, and they stay as they are.
SignalState signal_state() {
  SignalState state;
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  for (int signal = 1; signal <= kMostSignals; ++signal) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) state.ignored |= bit_of(signal);
    if (::sigismember(&blocked, signal) == 1) state.blocked |= bit_of(signal);
  }
  return state;
}

void set_signal_state(const SignalState& to) {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (int signal = 1; signal <= kMostSignals; ++signal) {
    ::signal(signal, to.ignores(signal) ? SIG_IGN : SIG_DFL);
    if ((to.blocked & bit_of(signal)) != 0) ::sigaddset(&blocked, signal);
  }
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

void block_all_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ::signal(SIGCHLD, SIG_DFL);
}

Descriptor catch_signals(std::initializer_list<int> signals) {
  sigset_t caught;
  ::sigemptyset(&caught);
  for (int signal : signals) ::sigaddset(&caught, signal);
  return catch_set(caught);
}

Descriptor catch_signals_of_job(const SignalState& inherited) {
  sigset_t caught;
  ::sigemptyset(&caught);
  ::sigaddset(&caught, SIGCHLD);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH})
    if (!inherited.ignores(signal)) ::sigaddset(&caught, signal);
  return catch_set(caught);
}

std::thread thread_without_signals(std::function<void()> body) {
  struct Blocked {
    Blocked() {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Blocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  };
  const Blocked blocked;  // until the thread has been made, or cannot be
  return std::thread(std::move(body));
}

int next_signal(const Descriptor& signals) {
  signalfd_siginfo came{};
  return ::read(signals.number(), &came, sizeof came) == sizeof came ? static_cast<int>(came.ssi_signo) : 0;
}

void stop_until_continued() {
  sigset_t stop, go_on;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::sigemptyset(&go_on);
  ::sigaddset(&go_on, SIGCONT);
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);  // here it stops
  ::sigprocmask(SIG_BLOCK, &stop, nullptr);
  const timespec no_time{};
  ::sigtimedwait(&go_on, nullptr, &no_time);  // what ended the stop
}

}  // namespace rueda
