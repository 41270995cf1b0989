// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/pseudo_terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace rueda {
namespace {

[[noreturn]] void cannot_open() {
  throw std::system_error(errno, std::generic_category(),
                          "cannot open a pseudo terminal; mount devpts on /dev/pts, or add --tty never");
}

// Without IUTF8 the erase key removes one byte of a longer character. With IXON Ctrl-S would stop the
// program.
void set_modes_of_program(int terminal) {
  termios modes{};
  if (::tcgetattr(terminal, &modes) != 0) return;
  modes.c_iflag = (modes.c_iflag | IUTF8) & ~static_cast<tcflag_t>(IXON);
  ::tcsetattr(terminal, TCSANOW, &modes);
}

}  // namespace

PseudoTerminal::PseudoTerminal(const TerminalSize& size)
    : ours_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) {
  if (!ours_ || ::grantpt(ours_.number()) != 0 || ::unlockpt(ours_.number()) != 0) cannot_open();
  programs_ = Descriptor(::ioctl(ours_.number(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!programs_) cannot_open();
  set_modes_of_program(programs_.number());
  resize(size);
}

void PseudoTerminal::close() {
  programs_.close();
  ours_.close();
}

void PseudoTerminal::resize(const TerminalSize& size) const {
  const winsize window{size.rows, size.columns, size.width, size.height};
  ::ioctl(ours_.number(), TIOCSWINSZ, &window);
}

TerminalModes PseudoTerminal::modes() const {
  termios now{};
  if (::tcgetattr(ours_.number(), &now) != 0) return {};
  const auto key = [&](int name) { return static_cast<char>(now.c_cc[name]); };
  return {.makes_signals = (now.c_lflag & ISIG) != 0,
          .takes_lines = (now.c_lflag & ICANON) != 0,
          .interrupt = key(VINTR),
          .quit = key(VQUIT),
          .suspend = key(VSUSP)};
}

// There is no group yet where the program has not begun its session.
bool PseudoTerminal::is_in_foreground(pid_t group) const {
  const pid_t now = ::tcgetpgrp(ours_.number());
  return now <= 0 || now == group;
}

// Behind an unfinished line the key only hands the line to the reader.
const char* PseudoTerminal::end_of_input(char last) const { return last == '\n' ? "\x04" : "\x04\x04"; }

bool move_to_terminal(int programs_end) {
  if (::setsid() < 0 || ::ioctl(programs_end, TIOCSCTTY, 0) != 0) return false;
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::dup2(programs_end, stream) < 0) return false;
  return true;
}

}  // namespace rueda
