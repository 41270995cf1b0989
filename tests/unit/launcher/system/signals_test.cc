// SPDX-License-Identifier: Apache-2.0
// The signals that a program inherits, on its way from ruedarun to a rank.
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

TEST(SignalState, NoSignalIsReceivedWhenAllAreBlocked) {
  EXPECT_TRUE(holds_in_a_child([] {
    ::signal(SIGCHLD, SIG_IGN);
    block_all_signals();
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) ::raise(signal);
    return !signal_state().ignores(SIGCHLD);
  }));
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
