// SPDX-License-Identifier: Apache-2.0
// Raw mode of the user's terminal, and the way back.
#include "launcher/system/user_terminal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <functional>

namespace rueda {
namespace {

termios modes_of(int terminal) {
  termios modes{};
  EXPECT_EQ(::tcgetattr(terminal, &modes), 0);
  return modes;
}

// In a child whose user sits at the terminal. The status of wait().
int at(PseudoTerminal& terminal, const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::_exit(move_to_terminal(terminal.programs_end()) && check() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

bool echoes() { return (modes_of(STDIN_FILENO).c_lflag & ECHO) != 0; }

TEST(RawMode, EndsWithItsObject) {
  PseudoTerminal terminal(TerminalSize{});
  const int status = at(terminal, [] {
    {
      RawMode raw;
      if (!raw.enter() || !raw.is_on() || echoes()) return false;
      raw.leave();
      if (raw.is_on() || !echoes()) return false;
      if (!raw.enter() || echoes()) return false;
    }
    return echoes();
  });
  EXPECT_EQ(status, 0);
}

TEST(RawMode, LeavesTheStopOfOutputToTheTerminal) {
  PseudoTerminal terminal(TerminalSize{});
  const int status = at(terminal, [] {
    termios modes = modes_of(STDIN_FILENO);
    modes.c_iflag |= IXON;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &modes);
    RawMode raw;
    return raw.enter() && (modes_of(STDIN_FILENO).c_iflag & IXON) != 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(RawMode, IsEnteredAgainWhereAShellHasChangedTheModes) {
  PseudoTerminal terminal(TerminalSize{});
  const int status = at(terminal, [] {
    const termios normal = modes_of(STDIN_FILENO);
    RawMode raw;
    if (!raw.enter() || !raw.enter()) return false;  // the second time the modes are ours
    ::tcsetattr(STDIN_FILENO, TCSANOW, &normal);
    if (!raw.enter() || echoes()) return false;
    raw.leave();
    return echoes();
  });
  EXPECT_EQ(status, 0);
}

TEST(RawMode, IsNotForTheBackground) {
  PseudoTerminal terminal(TerminalSize{});
  const int status = at(terminal, [] {
    const pid_t job = ::fork();
    if (job == 0) {
      ::setpgid(0, 0);
      RawMode raw;
      ::_exit(!is_terminal_of_ours(STDIN_FILENO) && !raw.enter() && !raw.is_on() && echoes() ? 0 : 1);
    }
    int ended = -1;
    ::waitpid(job, &ended, WUNTRACED);
    return ended == 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(RawMode, EndsWithACrash) {
  for (const int signal : {SIGABRT, SIGSEGV}) {
    PseudoTerminal terminal(TerminalSize{});
    int status = 0;
    EXPECT_EQ(at(terminal,
                 [&] {
                   const pid_t job = ::fork();
                   if (job == 0) {
                     RawMode raw;
                     if (raw.enter()) ::raise(signal);
                     ::_exit(1);
                   }
                   ::waitpid(job, &status, 0);
                   return WIFSIGNALED(status) && WTERMSIG(status) == signal && echoes();
                 }),
              0)
        << signal;
  }
}

TEST(TerminalSize, IsTheDefaultWhereNoneIsKnown) {
  EXPECT_EQ(terminal_size(-1), (TerminalSize{.rows = 24, .columns = 80}));
  PseudoTerminal terminal({.rows = 7, .columns = 8});
  EXPECT_EQ(terminal_size(terminal.programs_end()), (TerminalSize{.rows = 7, .columns = 8}));
  terminal.resize({.rows = 0, .columns = 0});
  EXPECT_EQ(terminal_size(terminal.programs_end()), TerminalSize{});
}

}  // namespace
}  // namespace rueda
