// SPDX-License-Identifier: Apache-2.0
// The answer of a process: its threads, and the reasons for what is missing.
#include "launcher/stacks/process_stacks.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "launcher/stacks/native_stacks.h"
#include "tests/unit/launcher/stacks/other_process.h"

namespace rueda {
namespace {

using nlohmann::json;

json answer_of(pid_t process) { return json::parse(stacks_of(process, nullptr)); }

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
  const std::string text = stacks_of(other.id(), nullptr);
  EXPECT_LE(text.size(), kMostStacksBytes);
  const json answer = json::parse(text);
  EXPECT_LE(answer.at("threads").size(), 512U);
  EXPECT_NE(answer.at("notes").dump().find("threads are left out"), std::string::npos) << answer.at("notes");
  EXPECT_TRUE(counts(shared));
}

TEST(ProcessStacks, SayThatItHasEnded) {
  const OtherProcess other([] {});
  ASSERT_TRUE(other.comes_to('Z'));
  ASSERT_TRUE(comes([&] { return threads_of(other.id()).size() <= 1; }));
  for (const pid_t process : {other.id(), 999'999'999}) {
    const json notes = answer_of(process).at("notes");
    EXPECT_NE(notes.dump().find("has ended"), std::string::npos) << notes;
  }
}

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
