// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/user_terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <utility>

namespace rueda {
namespace {

// For the handler of deadly signals, which knows no object.
volatile sig_atomic_t raw = 0;
termios before_raw{};
termios ours{};  // raw

bool are_same(const termios& a, const termios& b) {
  return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag && a.c_lflag == b.c_lflag;
}

// Safe in a handler. Another process may take the foreground away at any time: SIGTTOU then does not stop us.
void set_modes(const termios& modes) {
  if (!is_terminal_of_ours(STDIN_FILENO)) return;
  sigset_t stop, before;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTTOU);
  ::pthread_sigmask(SIG_BLOCK, &stop, &before);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &modes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void on_deadly_signal(int signal) {
  if (std::exchange(raw, 0) != 0) set_modes(before_raw);
  ::raise(signal);  // the default action: SA_RESETHAND
}

// Those that end a process, and that ruedarun does not read.
void catch_deadly_signals() {
  struct sigaction action {};
  action.sa_handler = on_deadly_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  for (const int signal : {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGIO, SIGPROF, SIGPWR, SIGSEGV, SIGSYS,
                           SIGTRAP, SIGVTALRM, SIGXCPU, SIGXFSZ}) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
      ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

bool is_terminal_of_ours(int descriptor) { return ::tcgetpgrp(descriptor) == ::getpgrp(); }

TerminalSize terminal_size(int descriptor) {
  winsize window{};
  if (::ioctl(descriptor, TIOCGWINSZ, &window) != 0 || window.ws_row == 0 || window.ws_col == 0) return {};
  return {window.ws_row, window.ws_col, window.ws_xpixel, window.ws_ypixel};
}

bool RawMode::is_on() const { return raw != 0; }

bool RawMode::enter() {
  raw = 0;
  termios now{};
  if (!is_terminal_of_ours(STDIN_FILENO) || ::tcgetattr(STDIN_FILENO, &now) != 0) return false;
  if (!are_same(now, ours)) before_raw = now;  // else a shell has left our modes as they were
  ours = now;
  ::cfmakeraw(&ours);
  ours.c_iflag |= now.c_iflag & (IXON | IXOFF | IXANY);
  catch_deadly_signals();
  raw = 1;
  set_modes(ours);
  return true;
}

void RawMode::leave() {
  if (std::exchange(raw, 0) != 0) set_modes(before_raw);
}

}  // namespace rueda
