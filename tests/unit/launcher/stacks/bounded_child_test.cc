// SPDX-License-Identifier: Apache-2.0
// Work in a child that crashes, hangs or talks too much.
#include "launcher/stacks/bounded_child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "launcher/system/descriptor.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(BoundedChild, GivesWhatItWrites) {
  EXPECT_EQ(output_of_child([](int to) { write_all(to, "words"); }, 100, 10s), "words");
  EXPECT_EQ(output_of_child([](int to) { write_all(to, "0123456789"); }, 4, 10s), "0123");
  EXPECT_EQ(output_of_child([](int) {}, 4, 10s), "");
}

TEST(BoundedChild, KeepsWhatACrashLeaves) {
  const std::string text = output_of_child(
      [](int to) {
        write_all(to, "before");
        ::raise(SIGKILL);
      },
      100, 10s);
  EXPECT_EQ(text, "before");
}

TEST(BoundedChild, EndsOneThatHangs) {
  const std::vector<pid_t> before = descendants();
  const auto begin = Clock::now();
  const std::string text = output_of_child(
      [](int to) {
        write_all(to, "before");
        while (true) ::pause();
      },
      100, 200ms);
  EXPECT_EQ(text, "before");
  EXPECT_GE(Clock::now() - begin, 200ms);
  EXPECT_EQ(descendants(), before);
}

// With room for the pipe alone.
TEST(BoundedChild, EndsOneThatHangsWithoutAHandle) {
  const std::vector<pid_t> before = descendants();
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int first = ::dup(0), second = ::dup(0);
  const rlimit small{static_cast<rlim_t>(second) + 1, limit.rlim_max};
  ::close(first);
  ::close(second);
  ::setrlimit(RLIMIT_NOFILE, &small);
  const auto begin = Clock::now();
  const std::string text = output_of_child(
      [](int to) {
        write_all(to, "before");
        while (true) ::pause();
      },
      100, 200ms);
  const auto took = Clock::now() - begin;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(text, "before");
  EXPECT_LT(took, 5s);
  EXPECT_EQ(descendants(), before);
}

TEST(BoundedChild, HasNoOtherDescriptor) {
  const Descriptor open(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = open.number();
  const std::string text = output_of_child(
      [&](int to) {
        write_all(to, ::fcntl(number, F_GETFD) < 0 && ::fcntl(2, F_GETFD) < 0 ? "none" : "some");
      },
      100, 10s);
  EXPECT_EQ(text, "none");
}

// As the agent's loop does.
TEST(BoundedChild, AnotherThreadMayWaitForIt) {
  std::atomic<bool> over = false;
  std::thread reaper([&] {
    while (!over) ::waitpid(-1, nullptr, WNOHANG);
  });
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(output_of_child([](int to) { write_all(to, "words"); }, 100, 10s), "words");
  over = true;
  reaper.join();
}

}  // namespace
}  // namespace rueda
