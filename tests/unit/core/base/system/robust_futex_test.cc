// SPDX-License-Identifier: Apache-2.0
// Other processes learn of the end of a thread that holds a word.
#include "core/base/system/robust_futex.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace rueda {
namespace {

// Until the word changes from that value; false where this kernel cannot wait.
bool await(RobustFutex& futex, std::uint32_t value) {
  FutexWord* const word = &futex.word();
  return RobustFutex::await_change(std::span(&word, 1), std::span(&value, 1));
}

TEST(RobustFutex, AnotherProcessLearnsOfTheEnd) {
  const SharedRobustFutex shared;
  ASSERT_NE(shared.get(), nullptr);
  EXPECT_FALSE(shared.get()->is_held());
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    SharedRobustFutex own((Descriptor(::dup(shared.file().number()))));
    own.get()->hold();
    ::pause();
    ::_exit(0);
  }
  while (!shared.get()->is_held()) {
    if (await(*shared.get(), 0)) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    GTEST_SKIP() << "no futex_waitv";
  }
  EXPECT_FALSE(shared.get()->holder_has_died());
  ::kill(child, SIGKILL);
  while (!shared.get()->holder_has_died()) ASSERT_TRUE(await(*shared.get(), shared.get()->word().load()));
  ::waitpid(child, nullptr, 0);
}

TEST(RobustFutex, TheEndOfTheHoldingThreadCounts) {
  const SharedRobustFutex shared;
  std::thread([&] { shared.get()->hold(); }).join();
  // The kernel marks the word when the thread is through, which join() does not wait for.
  for (std::uint32_t value; ((value = shared.get()->word().load()) & FUTEX_OWNER_DIED) == 0;)
    if (!await(*shared.get(), value)) GTEST_SKIP() << "no futex_waitv";
  EXPECT_TRUE(shared.get()->holder_has_died());
}

TEST(RobustFutex, AWaitForSeveralEndsWithTheFirst) {
  std::array<FutexWord, 3> words{};
  const std::array<FutexWord*, 3> awaited{&words[0], &words[1], &words[2]};
  const std::array<std::uint32_t, 3> values{0, 0, 0};
  std::thread other([&] {
    words[2].store(1);
    wake_all_on(words[2]);
  });
  RobustFutex::await_change(awaited, values);
  other.join();
  EXPECT_EQ(words[2].load(), 1U);
}

}  // namespace
}  // namespace rueda
