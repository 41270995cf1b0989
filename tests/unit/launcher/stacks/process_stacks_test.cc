// SPDX-License-Identifier: Apache-2.0
// The answer of a process: its threads, and the reasons for what is missing.
#include "launcher/stacks/process_stacks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/stacks/native_stacks.h"
#include "tests/unit/launcher/stacks/other_process.h"

namespace rueda {
namespace {

using nlohmann::json;

std::optional<TrainingMoment> no_moment() { return std::nullopt; }

json answer_of(pid_t process) { return json::parse(stacks_of(process, nullptr, no_moment)); }

#ifndef __SANITIZE_THREAD__  // it ends processes that begin threads, if their parent had some
TEST(ProcessStacks, HaveEveryThread) {
  Shared& shared = make_shared_numbers();
  const OtherProcess other([&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 20; ++i) threads.emplace_back([] { ::pause(); });
    count_up(shared);
  });
  ASSERT_TRUE(comes([&] { return threads_of(other.id()).size() >= 21; }));
  ASSERT_TRUE(counts(shared));
  const json answer = answer_of(other.id());
  EXPECT_EQ(answer.at("process").get<pid_t>(), other.id());
  ASSERT_EQ(answer.at("threads").size(), threads_of(other.id()).size());
  EXPECT_EQ(answer.at("threads").front().at("id").get<pid_t>(), other.id());
  for (const json& thread : answer.at("threads")) {
    EXPECT_EQ(thread.contains("frames"), has_native_stacks()) << thread;
    EXPECT_FALSE(thread.contains("python"));
  }
  EXPECT_TRUE(counts(shared));
}

TEST(ProcessStacks, LeaveOutWhatIsTooMuch) {
  Shared& shared = make_shared_numbers();
  const OtherProcess other([&] {
    for (int i = 0; i < 600; ++i) std::thread([] { ::pause(); }).detach();
    count_up(shared);
  });
  ASSERT_TRUE(comes([&] { return threads_of(other.id()).size() >= 601; }));
  const std::string text = stacks_of(other.id(), nullptr, no_moment);
  EXPECT_LE(text.size(), kMostStacksBytes);
  const json answer = json::parse(text);
  EXPECT_LE(answer.at("threads").size(), 512U);
  EXPECT_NE(answer.at("notes").dump().find("threads are left out"), std::string::npos) << answer.at("notes");
  EXPECT_TRUE(counts(shared));
}
#endif

TEST(ProcessStacks, SayThatItHasEnded) {
  const OtherProcess other([] {});
  ASSERT_TRUE(other.comes_to('Z'));
  ASSERT_TRUE(comes([&] { return threads_of(other.id()).size() <= 1; }));
  for (const pid_t process : {other.id(), 999'999'999}) {
    const json notes = answer_of(process).at("notes");
    EXPECT_NE(notes.dump().find("has ended"), std::string::npos) << notes;
  }
}

TEST(ProcessStacks, HaveThePhaseOfTheMomentOfTheStop) {
  if (!has_native_stacks()) GTEST_SKIP() << "nothing is stopped";
  Shared& shared = make_shared_numbers();
  const OtherProcess other([&] { count_up(shared); });
  ASSERT_TRUE(counts(shared));
  const auto moment = [&] {
    const long step = shared.counter;
    ::usleep(2000);
    EXPECT_EQ(shared.counter, step) << "it stands still";
    return std::optional(TrainingMoment{.step = static_cast<std::uint64_t>(step), .phase = Phase::data});
  };
  const json answer = json::parse(stacks_of(other.id(), nullptr, moment));
  EXPECT_EQ(answer.at("phase"), static_cast<int>(Phase::data));
  EXPECT_GT(answer.at("step"), 0);
  EXPECT_TRUE(counts(shared));
}

#ifndef __SANITIZE_THREAD__  // it hands signals to a process later than the kernel does
Shared* numbers = nullptr;
int stack_file = -1;

void write_number(int) {
  std::array<char, 128> text{};
  const int length = std::snprintf(text.data(), text.size(),
                                   "Stack (most recent call first):\n  File \"x\", line %ld in count\n",
                                   numbers->counter.load());
  static_cast<void>(!::write(stack_file, text.data(), static_cast<std::size_t>(length)));
}

// The process counts on as soon as it may.
TEST(ProcessStacks, HaveThePythonStackOfThatMoment) {
  Shared& shared = *(numbers = &make_shared_numbers());
  const Descriptor file(::memfd_create("stacks", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  stack_file = file.number();
  const OtherProcess other([&] {
    ::signal(SIGRTMIN + 3, write_number);
    while (true) ++shared.counter;
  });
  ASSERT_TRUE(counts(shared));
  const auto python = PythonStacks::of(other.id(), SIGRTMIN + 3,
                                       Descriptor(::fcntl(file.number(), F_DUPFD_CLOEXEC, 0)), file.number());
  ASSERT_TRUE(python);
  const auto moment = [&] {
    const auto count = static_cast<std::uint64_t>(shared.counter);
    return std::optional(TrainingMoment{.step = count, .spans_written = count});
  };
  for (int i = 0; i < 50; ++i) {
    const json answer = json::parse(stacks_of(other.id(), python, moment));
    const std::string frame = answer.at("threads").at(0).at("python").at(0).get<std::string>();
    ASSERT_EQ(answer.contains("step"), has_native_stacks()) << "else it has counted on meanwhile";
    if (!answer.contains("step")) continue;
    EXPECT_EQ(frame, fmt::format("count (x:{})", answer.at("step").get<std::uint64_t>()));
  }
}
#endif

TEST(ProcessStacks, OfAProcessThatEndsMeanwhileAreAnAnswer) {
  for (int i = 0; i < 20; ++i) {
    Shared& shared = make_shared_numbers();
    const OtherProcess other([&] { count_up(shared); });
    ASSERT_TRUE(counts(shared));
    std::thread killer([&] {
      ::usleep(static_cast<unsigned>(200 * i));
      ::kill(other.id(), SIGKILL);
    });
    EXPECT_TRUE(answer_of(other.id()).is_object());
    killer.join();
  }
}

}  // namespace
}  // namespace rueda
