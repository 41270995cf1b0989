// SPDX-License-Identifier: Apache-2.0
// A terminal that a program cannot tell from one of the user.
#include "launcher/system/pseudo_terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

// A child with the terminal as its streams.
pid_t start_on(PseudoTerminal& terminal, const std::function<int()>& program) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(move_to_terminal(terminal.programs_end()) ? program() : 99);
  return child;
}

int exit_status_of(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// All that comes until `wanted` is there, or the end.
std::string read_until(const PseudoTerminal& terminal, const std::string& wanted) {
  std::string text;
  while (wanted.empty() || text.find(wanted) == text.npos) {
    pollfd wait{terminal.descriptor(), POLLIN, 0};
    if (::poll(&wait, 1, 10'000) != 1) break;
    const std::string piece(read_some(terminal.descriptor()));
    if (piece.empty() && errno != EAGAIN) break;
    text += piece;
  }
  return text;
}

TEST(PseudoTerminal, IsTheControllingTerminalOfItsProgramAndHasASize) {
  PseudoTerminal terminal({.rows = 11, .columns = 22, .width = 33, .height = 44});
  const pid_t child = start_on(terminal, [] {
    winsize size{};
    ::ioctl(0, TIOCGWINSZ, &size);
    const bool is_ours =
        ::isatty(0) == 1 && ::isatty(1) == 1 && ::isatty(2) == 1 && ::tcgetpgrp(0) == ::getpid();
    return is_ours && size.ws_row == 11 && size.ws_col == 22 && size.ws_xpixel == 33 && size.ws_ypixel == 44
               ? 0
               : 1;
  });
  EXPECT_EQ(exit_status_of(child), 0);
}

TEST(PseudoTerminal, AProgramLearnsOfANewSize) {
  PseudoTerminal terminal(TerminalSize{});
  const pid_t child = start_on(terminal, [] {
    sigset_t change;
    ::sigemptyset(&change);
    ::sigaddset(&change, SIGWINCH);
    ::sigprocmask(SIG_BLOCK, &change, nullptr);
    ::signal(SIGWINCH, [](int) {});
    [[maybe_unused]] const ssize_t told = ::write(1, "up", 2);
    const timespec timeout{10, 0};
    if (::sigtimedwait(&change, nullptr, &timeout) != SIGWINCH) return 1;
    winsize size{};
    ::ioctl(0, TIOCGWINSZ, &size);
    return size.ws_col == 99 ? 0 : 2;
  });
  EXPECT_EQ(read_until(terminal, "up"), "up");
  terminal.resize({.rows = 5, .columns = 99});
  EXPECT_EQ(exit_status_of(child), 0);
}

TEST(PseudoTerminal, TellsWhichKeysMakeSignals) {
  PseudoTerminal terminal(TerminalSize{});
  TerminalModes modes = terminal.modes();
  EXPECT_TRUE(modes.makes_signals && modes.takes_lines);
  EXPECT_EQ(modes.interrupt, '\x03');
  EXPECT_EQ(modes.suspend, '\x1a');
  EXPECT_EQ(modes.quit, '\x1c');
  termios changed{};
  ASSERT_EQ(::tcgetattr(terminal.programs_end(), &changed), 0);
  EXPECT_EQ(changed.c_iflag & IXON, 0U) << "Ctrl-S would stop the program";
  changed.c_lflag &= ~static_cast<tcflag_t>(ISIG | ICANON);
  changed.c_cc[VINTR] = 1;
  ASSERT_EQ(::tcsetattr(terminal.programs_end(), TCSANOW, &changed), 0);
  modes = terminal.modes();
  EXPECT_FALSE(modes.makes_signals || modes.takes_lines);
  EXPECT_EQ(modes.interrupt, 1);
}

TEST(PseudoTerminal, OutputIsReadToItsEndAfterTheProgram) {
  PseudoTerminal terminal(TerminalSize{});
  const pid_t child = start_on(terminal, [] {
    for (int stream = 0; stream <= 2; ++stream) ::close(stream);  // it may open /dev/tty again
    ::usleep(50'000);
    const int again = ::open("/dev/tty", O_RDWR);
    return ::write(again, "last\n", 5) == 5 ? 0 : 1;
  });
  EXPECT_EQ(exit_status_of(child), 0);
  terminal.close_programs_end();
  EXPECT_EQ(read_until(terminal, ""), "last\r\n");
  EXPECT_EQ(read_some(terminal.descriptor()), "");
  EXPECT_EQ(errno, EIO);
}

TEST(PseudoTerminal, EndOfInputBehindAnUnfinishedLineNeedsTwoKeys) {
  PseudoTerminal terminal(TerminalSize{});
  EXPECT_STREQ(terminal.end_of_input('\n'), "\x04");
  EXPECT_STREQ(terminal.end_of_input('x'), "\x04\x04");
}

}  // namespace
}  // namespace rueda
