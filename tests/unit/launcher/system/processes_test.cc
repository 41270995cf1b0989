// SPDX-License-Identifier: Apache-2.0
// How a child that has ended is described before anybody has waited for it.
#include "launcher/system/processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rueda {
namespace {

void expect_same_as_wait(pid_t child) {
  siginfo_t about{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &about, WEXITED | WNOWAIT), 0);
  const std::optional<int> early = status_at_exit(child);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(early, status);
  EXPECT_EQ(status_at_exit(child), std::nullopt);  // there is none any more
}

TEST(Processes, TheStatusAtTheExitIsThatOfWait) {
  for (const int code : {0, 3}) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(code);
    expect_same_as_wait(child);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_EQ(status_at_exit(child), std::nullopt);
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  EXPECT_EQ(status_at_exit(child), std::nullopt);
  ::kill(child, SIGKILL);
  expect_same_as_wait(child);
}

}  // namespace
}  // namespace rueda
