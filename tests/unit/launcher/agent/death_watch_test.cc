// SPDX-License-Identifier: Apache-2.0
// The agent's early news of workers that have died.
#include "launcher/agent/death_watch.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/system/processes.h"

namespace rueda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

pid_t child_that_holds(RobustFutex* futex) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  futex->hold();
  ::pause();
  ::_exit(0);
}

bool has_news(const DeathWatch& watch, int milliseconds) {
  pollfd wait{watch.descriptor(), POLLIN, 0};
  return ::poll(&wait, 1, milliseconds) == 1;
}

TEST(DeathWatch, NamesWhoHasDiedOnce) {
  const SharedRobustFutex first, second;
  const pid_t one = child_that_holds(first.get()), other = child_that_holds(second.get());
  DeathWatch watch;
  watch.add(3, first.get());
  watch.add(5, second.get());
  watch.add(7, nullptr);
  EXPECT_FALSE(has_news(watch, 50));
  ::kill(other, SIGKILL);
  if (!has_news(watch, 10'000)) GTEST_SKIP() << "no futex_waitv";
  EXPECT_THAT(watch.take_dead(), ElementsAre(5));
  EXPECT_THAT(watch.take_dead(), IsEmpty());
  EXPECT_EQ(status_at_exit(one), std::nullopt);
  ::kill(one, SIGKILL);
  ASSERT_TRUE(has_news(watch, 10'000));
  EXPECT_THAT(watch.take_dead(), ElementsAre(3));
  for (const pid_t child : {one, other}) ::waitpid(child, nullptr, 0);
}

TEST(DeathWatch, WhoIsAddedLaterIsSeenToo) {
  const SharedRobustFutex shared;
  DeathWatch watch;
  EXPECT_FALSE(has_news(watch, 20));
  watch.add(1, shared.get());
  const pid_t child = child_that_holds(shared.get());
  ::kill(child, SIGKILL);  // perhaps before it holds anything
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(has_news(watch, shared.get()->is_held() ? 10'000 : 20), shared.get()->is_held());
}

}  // namespace
}  // namespace rueda
