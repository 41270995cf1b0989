// SPDX-License-Identifier: Apache-2.0
// The user's terminal during a job, on a pseudo terminal.
#include "launcher/supervisor/terminal_session.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace rueda {
namespace {

using namespace std::chrono_literals;
using TerminalAct = TerminalSession::Act;
using Terminal = LaunchOptions::Terminal;

const TerminalSession::Time kMidnight{};

LaunchOptions with(Terminal terminal, std::set<int> shown = {}) {
  LaunchOptions options;
  options.terminal = terminal;
  options.shown = std::move(shown);
  return options;
}

bool holds_at_a_terminal(const std::function<bool()>& check) {
  PseudoTerminal terminal({.rows = 7, .columns = 77});
  const pid_t child = ::fork();
  if (child == 0) ::_exit(move_to_terminal(terminal.programs_end()) && check() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST(TerminalSession, IsWantedAtATerminalUnlessRank0IsNotShown) {
  EXPECT_TRUE(holds_at_a_terminal([] {
    return TerminalSession(with(Terminal::automatic)).is_wanted() &&
           TerminalSession(with(Terminal::automatic)).size()->columns == 77 &&
           TerminalSession(with(Terminal::automatic, {0, 1})).is_wanted() &&
           !TerminalSession(with(Terminal::automatic, {1})).is_wanted() &&
           !TerminalSession(with(Terminal::never)).is_wanted() &&
           !TerminalSession(with(Terminal::never)).size();
  }));
}

TEST(TerminalSession, IsRawFromTheStartToTheLastOutput) {
  EXPECT_TRUE(holds_at_a_terminal([] {
    TerminalSession session(with(Terminal::automatic));
    if (session.next_time(kMidnight) || session.next_act(kMidnight, true) != TerminalAct::nothing)
      return false;
    session.on_start();
    if (session.next_act(kMidnight, false) != TerminalAct::nothing || session.is_raw())
      return false;  // lines are on the way
    if (session.next_act(kMidnight, true) != TerminalAct::resumed || !session.is_raw() ||
        session.next_time(kMidnight))
      return false;
    session.on_end(kMidnight);
    session.on_output(kMidnight + 90ms);
    if (session.next_act(kMidnight + 150ms, true) != TerminalAct::nothing || !session.is_raw()) return false;
    if (session.next_act(kMidnight + 250ms, false) != TerminalAct::nothing) return false;
    return session.next_act(kMidnight + 400ms, true) == TerminalAct::left && !session.is_raw() &&
           !session.resume();
  }));
}

TEST(TerminalSession, DoesNotWaitLongForAReader) {
  EXPECT_TRUE(holds_at_a_terminal([] {
    TerminalSession session(with(Terminal::always));
    session.on_start();
    if (!session.resume()) return false;
    session.on_end(kMidnight);
    for (auto now = kMidnight; now < kMidnight + 10s; now += 50ms)
      if (session.next_act(now, false) == TerminalAct::left) return now <= kMidnight + 2s;
    return false;
  }));
}

TEST(TerminalSession, IsRawAgainAfterAPause) {
  EXPECT_TRUE(holds_at_a_terminal([] {
    TerminalSession session(with(Terminal::automatic));
    session.on_start();
    if (!session.resume()) return false;
    session.pause();
    return !session.is_raw() && session.next_time(kMidnight) &&
           session.next_act(kMidnight, true) == TerminalAct::resumed;
  }));
}

TEST(TerminalSession, CtrlCThreeTimesInASecondDemandsTheEnd) {
  EXPECT_TRUE(holds_at_a_terminal([] {
    TerminalSession session(with(Terminal::automatic));
    session.on_start();
    if (!session.resume()) return false;
    const auto typed = [&](std::chrono::milliseconds at, const char* text, bool ending = false) {
      return session.demands_end(text, ending, kMidnight + at);
    };
    if (typed(0ms, "\x03") || typed(600ms, "x\x03") || typed(1200ms, "\x03")) return false;
    if (!typed(1300ms, "\x03") || typed(1400ms, "\x03")) return false;
    if (!typed(5s, "\x03\x03\x03\x03")) return false;
    return typed(10s, "\x03", true) && !typed(11s, "x", true);
  }));
}

}  // namespace
}  // namespace rueda
