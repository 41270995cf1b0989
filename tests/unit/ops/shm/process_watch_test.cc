// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/process_watch.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "core/base/time.h"

namespace rueda {
namespace {

// A process that sleeps until it is killed.
class Sleeper {
 public:
  Sleeper() {
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // a failed test leaves nothing behind
      while (true) pause();
    }
    watched_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, process_, 0)));
    EXPECT_TRUE(watched_);
  }
  ~Sleeper() { end(); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  int watched() const { return watched_.number(); }
  void end() {
    if (process_ == 0) return;
    kill(process_, SIGKILL);
    EXPECT_EQ(waitpid(process_, nullptr, 0), process_);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
  Descriptor watched_;
};

std::shared_ptr<ProcessWatch::Listener> listener() {
  return std::make_shared<ProcessWatch::Listener>(EventCount());
}

bool hears(const ProcessWatch::Listener& listener, std::chrono::milliseconds within) {
  const Time end = clock_now() + within;
  while (!listener.heard.load() && clock_now() < end) usleep(1000);
  return listener.heard.load();
}

TEST(ProcessWatch, WakesWhoSleeps) {
  Sleeper process;
  const auto heard = listener();
  const std::shared_ptr<ProcessWatch> watch = ProcessWatch::of_this_process();
  watch->add(process.watched(), heard);
  const std::uint32_t before = heard->doorbell.listen();
  EXPECT_FALSE(hears(*heard, std::chrono::milliseconds(50)));
  process.end();
  heard->doorbell.sleep(before, std::chrono::seconds(60));
  EXPECT_TRUE(heard->heard.load());
  watch->remove(process.watched());
}

TEST(ProcessWatch, EachListenerHearsOfItsOwn) {
  Sleeper first, second;
  const auto of_first = listener(), of_second = listener();
  const std::shared_ptr<ProcessWatch> watch = ProcessWatch::of_this_process();
  EXPECT_EQ(watch, ProcessWatch::of_this_process()) << "one thread for all";
  watch->add(first.watched(), of_first);
  watch->add(second.watched(), of_second);
  second.end();
  EXPECT_TRUE(hears(*of_second, std::chrono::seconds(60)));
  EXPECT_FALSE(of_first->heard.load());
  first.end();
  EXPECT_TRUE(hears(*of_first, std::chrono::seconds(60)));
}

TEST(ProcessWatch, NobodyHearsOfAProcessThatIsNoLongerWatched) {
  Sleeper first, second;
  const auto heard = listener(), last = listener();
  const std::shared_ptr<ProcessWatch> watch = ProcessWatch::of_this_process();
  watch->add(first.watched(), heard);
  watch->add(second.watched(), last);
  watch->remove(first.watched());
  first.end();
  second.end();
  EXPECT_TRUE(hears(*last, std::chrono::seconds(60))) << "of what ended later";
  EXPECT_FALSE(heard->heard.load());
}

TEST(ProcessWatch, OneThatHasEndedBeforeIsHeardOfAtOnce) {
  Sleeper process;
  process.end();
  const auto heard = listener();
  const auto watch = ProcessWatch::of_this_process();
  watch->add(process.watched(), heard);
  EXPECT_TRUE(hears(*heard, std::chrono::seconds(60)));
}

TEST(ProcessWatch, AForkedChildDisturbsNobody) {
  Sleeper process;
  const auto heard = listener();
  auto watch = ProcessWatch::of_this_process();
  watch->add(process.watched(), heard);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    watch->remove(process.watched());
    watch.reset();
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  process.end();
  EXPECT_TRUE(hears(*heard, std::chrono::seconds(60))) << "the parent's thread goes on";
}

// The first round has descriptors. A sanitizer needs some of its own where it sees a type for the first time.
TEST(ProcessWatch, WithoutDescriptorsItEnds) {
  Sleeper process;
  const auto heard = listener();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  for (const int left : {100, 0, 1}) {
    const int next = ::dup(0);
    ::close(next);
    const rlimit few{static_cast<rlim_t>(next + left), before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    {
      ProcessWatch watch;
      watch.add(process.watched(), heard);
      watch.remove(process.watched());
    }
    ::setrlimit(RLIMIT_NOFILE, &before);
  }
}

}  // namespace
}  // namespace rueda
