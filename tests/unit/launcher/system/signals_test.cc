// SPDX-License-Identifier: Apache-2.0
// What a program inherits of signals, on its way from ruedarun to a rank.
#include "launcher/system/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace rueda {
namespace {

bool holds_in_a_child(const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST(SignalState, IsAsItWasSet) {
  const SignalState wanted{1ULL << (SIGHUP - 1) | 1ULL << (SIGPIPE - 1), 1ULL << (SIGUSR1 - 1)};
  EXPECT_TRUE(holds_in_a_child([&] {
    ::signal(SIGINT, SIG_IGN);
    set_signal_state(wanted);
    return signal_state() == wanted && wanted.ignores(SIGHUP) && !wanted.ignores(SIGINT);
  }));
}

TEST(SignalState, SurvivesTheEnvironment) {
  for (const SignalState& state : {SignalState{}, SignalState{1, ~0ULL}, SignalState{~0ULL, 0x8000}})
    EXPECT_EQ(signal_state_from(to_text(state)), state);
  for (const char* text : {"", ":", "1", "1:", ":1", "1:1 ", "x:1", "1:1:1", "11111111111111111:0"})
    EXPECT_FALSE(signal_state_from(text)) << text;
}

TEST(SignalState, HydraHearsOfItsChildren) {
  const SignalState all{~0ULL, ~0ULL};
  EXPECT_FALSE(all.for_hydra().ignores(SIGCHLD));
  EXPECT_TRUE(all.for_hydra().ignores(SIGHUP));
  EXPECT_EQ(all.for_hydra().blocked, 0U);
}

TEST(Signals, ThoseThatWereIgnoredStayIgnored) {
  EXPECT_TRUE(holds_in_a_child([] {
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGCHLD, SIG_IGN);
    const Descriptor signals = catch_signals_of_job(signal_state());
    ::raise(SIGHUP);
    ::raise(SIGUSR1);
    return next_signal(signals) == SIGUSR1 && next_signal(signals) == 0 && signal_state().ignores(SIGHUP) &&
           !signal_state().ignores(SIGCHLD);
  }));
}

}  // namespace
}  // namespace rueda
