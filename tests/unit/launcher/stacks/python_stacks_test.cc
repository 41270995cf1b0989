// SPDX-License-Identifier: Apache-2.0
// Processes that promise to tell of their Python, and those that break the promise.
#include "launcher/stacks/python_stacks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/unit/launcher/stacks/other_process.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

int text_file = -1;

Descriptor file_in_memory() { return Descriptor(::memfd_create("stacks", MFD_CLOEXEC | MFD_ALLOW_SEALING)); }

void handle_signal(int) {
  constexpr std::string_view kText =
      "Stack (most recent call first):\n  File \"/a b/train.py\", line 12 in step\n  File \"x\", line 3 in "
      "<module>\n";
  static_cast<void>(!::write(text_file, kText.data(), kText.size()));
}

void catch_signal() {
  struct sigaction action {};
  action.sa_handler = handle_signal;
  ::sigaction(SIGRTMIN + 3, &action, nullptr);
}

struct Asked {
  explicit Asked(const std::function<void()>& begin) : file(file_in_memory()), shared(make_shared_numbers()) {
    text_file = file.number();
    other = std::make_unique<OtherProcess>([&] {
      begin();
      count_up(shared);
    });
    EXPECT_TRUE(counts(shared));
    python = PythonStacks::of(other->id(), SIGRTMIN + 3,
                              Descriptor(::fcntl(file.number(), F_DUPFD_CLOEXEC, 0)), file.number());
  }
  PythonStacks::Answer ask() const { return python->ask(other->id(), 5s); }

  Descriptor file;
  Shared& shared;
  std::unique_ptr<OtherProcess> other;
  std::shared_ptr<PythonStacks> python;
};

TEST(PythonStacks, ReadWhatTheHandlerWrites) {
  const Asked asked(catch_signal);
  ASSERT_TRUE(asked.python);
  for (int i = 0; i < 20; ++i) {
    const PythonStacks::Answer answer = asked.ask();
    EXPECT_EQ(answer.problem, "");
    EXPECT_EQ(answer.frames, (std::vector<std::string>{"step (/a b/train.py:12)", "<module> (x:3)"}));
  }
  EXPECT_TRUE(counts(asked.shared));
}

// The signal would end it.
TEST(PythonStacks, DoNotSignalWhoHasNoHandler) {
  const Asked asked([] {});
  EXPECT_NE(asked.ask().problem.find("taken the handler"), std::string::npos);
  EXPECT_TRUE(counts(asked.shared));
}

TEST(PythonStacks, DoNotSignalWhoBlocksIt) {
  const Asked asked([] {
    catch_signal();
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGRTMIN + 3);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
  });
  EXPECT_NE(asked.ask().problem.find("blocks signal"), std::string::npos);
}

TEST(PythonStacks, DoNotSignalWhoIsStopped) {
  const Asked asked(catch_signal);
  ::kill(asked.other->id(), SIGSTOP);
  ASSERT_TRUE(asked.other->comes_to('T'));
  EXPECT_NE(asked.ask().problem.find("stopped"), std::string::npos);
  ::kill(asked.other->id(), SIGCONT);
  EXPECT_TRUE(counts(asked.shared));
  EXPECT_EQ(asked.ask().problem, "");
}

TEST(PythonStacks, DoNotSignalAnotherProgram) {
  const Asked asked(catch_signal);
  ASSERT_TRUE(asked.python->is_alive());
  const Descriptor file = file_in_memory();
  const OtherProcess other([] {
    catch_signal();
    ::usleep(200'000);
    ::execl("/bin/sleep", "sleep", "60", nullptr);
  });
  const auto python = PythonStacks::of(other.id(), SIGRTMIN + 3,
                                       Descriptor(::fcntl(file.number(), F_DUPFD_CLOEXEC, 0)), file.number());
  ASSERT_TRUE(python && python->is_alive());
  EXPECT_TRUE(comes([&] { return !python->is_alive(); }));
  EXPECT_NE(python->ask(other.id(), 5s).problem, "");
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(other.comes_to('S')) << other.state();
}

// A program's own handler may do anything.
TEST(PythonStacks, SignalAHandlerThatWritesNothingOnce) {
  static Shared& seen = make_shared_numbers();
  const Asked asked([] {
    struct sigaction action {};
    action.sa_handler = [](int) { ++seen.signals; };
    ::sigaction(SIGRTMIN + 3, &action, nullptr);
  });
  for (int i = 0; i < 3; ++i)
    EXPECT_NE(asked.python->ask(asked.other->id(), 100ms).problem.find("handler of its own"),
              std::string::npos);
  EXPECT_TRUE(counts(asked.shared));
  EXPECT_EQ(seen.signals, 1);
}

// A handler that begins late would write into the answer of another thread.
TEST(PythonStacks, AskNobodyBeforeTheLastOneHasAnswered) {
  static Shared& gate = make_shared_numbers();
  const Asked asked([] {
    struct sigaction action {};
    action.sa_handler = [](int number) {
      ++gate.signals;
      while (gate.counter == 0) ::usleep(1000);
      handle_signal(number);
    };
    ::sigaction(SIGRTMIN + 3, &action, nullptr);
  });
  const pid_t thread = asked.other->id();
  EXPECT_NE(asked.python->ask(thread, 100ms).problem.find("does not take signals"), std::string::npos);
  EXPECT_NE(asked.python->ask(thread, 100ms).problem.find("earlier signal"), std::string::npos);
  EXPECT_EQ(gate.signals, 1);
  gate.counter = 1;
  EXPECT_TRUE(counts(asked.shared));
  EXPECT_EQ(asked.ask().frames.size(), 2U);
}

// faulthandler would write into the program's other file.
TEST(PythonStacks, DoNotSignalWhoHasClosedTheFile) {
  const Asked asked([] {
    catch_signal();
    ::dup2(::memfd_create("stacks", MFD_ALLOW_SEALING), text_file);
  });
  EXPECT_NE(asked.ask().problem.find("closed its file"), std::string::npos);
  EXPECT_TRUE(counts(asked.shared));
}

TEST(PythonStacks, KnowWhoHasEnded) {
  const Asked asked(catch_signal);
  ::kill(asked.other->id(), SIGKILL);
  ASSERT_TRUE(asked.other->comes_to('Z'));
  EXPECT_NE(asked.ask().problem.find("has ended"), std::string::npos);
}

TEST(PythonStacks, TakeAFileInMemoryAlone) {
  const pid_t own = ::getpid();
  EXPECT_TRUE(PythonStacks::of(own, SIGRTMIN, file_in_memory(), 3));
  EXPECT_FALSE(PythonStacks::of(own, SIGRTMIN, Descriptor(::open("/etc/passwd", O_RDONLY | O_CLOEXEC)), 3));
  EXPECT_FALSE(PythonStacks::of(own, SIGRTMIN, Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)), 3));
  EXPECT_FALSE(PythonStacks::of(own, SIGRTMIN, Descriptor(), 3));
  EXPECT_FALSE(PythonStacks::of(own, SIGKILL, file_in_memory(), 3));
  EXPECT_FALSE(PythonStacks::of(own, SIGRTMAX + 1, file_in_memory(), 3));
  EXPECT_FALSE(PythonStacks::of(0, SIGRTMIN, file_in_memory(), 3));
  EXPECT_FALSE(PythonStacks::of(own, SIGRTMIN, file_in_memory(), -1));
}

TEST(PythonStacks, ReadAnyText) {
  EXPECT_TRUE(frames_of_faulthandler("").empty());
  const std::string block = "Stack (most recent call first):\n  File \"a\", line 1 in f\n";
  EXPECT_EQ(frames_of_faulthandler(block + block).size(), 1U);
  EXPECT_TRUE(
      frames_of_faulthandler("  File \"\n  File \"x\", line \n  <no Python frame>\n\"\", line  in ").empty());
  EXPECT_EQ(frames_of_faulthandler("  File \"a\", line 1 in f\n  ...\n"),
            (std::vector<std::string>{"f (a:1)", "… and more"}));
  EXPECT_TRUE(frames_of_faulthandler("  File \"" + std::string(2000, 'x') + "\", line 1 in f\n").empty());
}

}  // namespace
}  // namespace rueda
