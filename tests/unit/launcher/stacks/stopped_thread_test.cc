// SPDX-License-Identifier: Apache-2.0
// A thread of another process stands still, and goes on as if nothing had been.
#include "launcher/stacks/stopped_thread.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/unit/launcher/stacks/other_process.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

// What is still traced at its end is let go.
void in_thread(const std::function<void()>& body) { std::thread(body).join(); }

TEST(StoppedThread, StandsStillAndGoesOn) {
  Shared& shared = make_shared_numbers();
  const OtherProcess other([&] { count_up(shared); });
  ASSERT_TRUE(counts(shared));
  in_thread([&] {
    const StoppedThread stopped(other.id(), 5s);
    ASSERT_EQ(stopped.error(), 0);
    const long before = shared.counter;
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(shared.counter, before);
    EXPECT_NE(stopped.program_counter(), 0U);
    const StackCopy stack = stopped.stack(64 << 10);
    EXPECT_GT(stack.bytes.size(), 256U);
    EXPECT_LE(stack.begin, stopped.stack_pointer());
  });
  EXPECT_TRUE(counts(shared));
}

TEST(StoppedThread, AStoppedProcessStaysStopped) {
  Shared& shared = make_shared_numbers();
  const OtherProcess other([&] { count_up(shared); });
  ASSERT_TRUE(counts(shared));
  ::kill(other.id(), SIGSTOP);
  ASSERT_TRUE(other.comes_to('T'));
  in_thread([&] { EXPECT_EQ(StoppedThread(other.id(), 5s).error(), 0); });
  EXPECT_TRUE(other.comes_to('T'));
  const long before = shared.counter;
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(shared.counter, before);
  ::kill(other.id(), SIGCONT);
  EXPECT_TRUE(counts(shared));
}

Shared* counted = nullptr;

#ifndef __SANITIZE_THREAD__  // it hands signals to a process later than the kernel does
TEST(StoppedThread, EverySignalArrives) {
  constexpr int kSignals = 2000;
  counted = &make_shared_numbers();
  const OtherProcess other([] {
    struct sigaction action {};
    action.sa_handler = [](int) { ++counted->signals; };
    ::sigaction(SIGRTMIN, &action, nullptr);
    count_up(*counted);
  });
  ASSERT_TRUE(counts(*counted));
  std::thread sender([&] {
    for (int i = 0; i < kSignals; ++i) {
      while (::sigqueue(other.id(), SIGRTMIN, {}) != 0) std::this_thread::sleep_for(1ms);
      if (i % 16 == 0) std::this_thread::sleep_for(100us);
    }
  });
  in_thread([&] {
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (counted->signals < kSignals / 2 && std::chrono::steady_clock::now() < until)
      EXPECT_EQ(StoppedThread(other.id(), 5s).error(), 0);
  });
  sender.join();
  EXPECT_TRUE(comes([] { return counted->signals == kSignals; })) << counted->signals;
}
#endif

// It is not its child: the kernel lets it go.
TEST(StoppedThread, GoesOnWhenTheTracerIsKilled) {
  Shared& shared = make_shared_numbers();
  const OtherProcess tracer([&] {
    const pid_t traced = ::fork();
    if (traced == 0) count_up(shared);
    shared.process = traced;
    ::usleep(50'000);
    const StoppedThread stopped(traced, 5s);
    shared.signals = stopped.error() == 0 ? 1 : -1;
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(tracer.comes_to('Z'));
  EXPECT_EQ(shared.signals, 1);
  EXPECT_TRUE(counts(shared));
  ::kill(shared.process, SIGKILL);
}

// With no time at all it stops behind the constructor.
TEST(StoppedThread, OneThatStopsTooLateIsLetGo) {
  Shared& shared = make_shared_numbers();
  const OtherProcess other([&] { count_up(shared); });
  ASSERT_TRUE(counts(shared));
  const auto is_free = [&] { return why_not_traced(other.id()).find("process ") != 0; };
  in_thread([&] {
    int late = 0;
    for (int i = 0; i < 100; ++i) {
      late += StoppedThread(other.id(), 0s).error() == ETIMEDOUT ? 1 : 0;
      EXPECT_TRUE(comes([&] { return StoppedThread::let_go(other.id()) || is_free(); }));
      EXPECT_TRUE(counts(shared));
    }
    EXPECT_GT(late, 0);
  });
}

TEST(StoppedThread, WhoHasEndedIsNotStopped) {
  const OtherProcess other([] {});
  ASSERT_TRUE(other.comes_to('Z'));
  in_thread([&] { EXPECT_NE(StoppedThread(other.id(), 5s).error(), 0); });
  in_thread([] { EXPECT_EQ(StoppedThread(999'999'999, 5s).error(), ESRCH); });
}

TEST(StoppedThread, OneTracerIsEnough) {
  Shared& shared = make_shared_numbers();
  const OtherProcess other([&] { count_up(shared); });
  in_thread([&] {
    const StoppedThread first(other.id(), 5s);
    ASSERT_EQ(first.error(), 0);
    EXPECT_EQ(StoppedThread(other.id(), 5s).error(), EPERM);
    EXPECT_EQ(why_not_traced(other.id()).find("process " + std::to_string(::gettid())), 0U);
  });
  EXPECT_TRUE(counts(shared));
}

}  // namespace
}  // namespace rueda
