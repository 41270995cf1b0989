// SPDX-License-Identifier: Apache-2.0
// The functions of another process, and processes that no reader should trust.
#include "launcher/stacks/native_stacks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/stacks/bounded_child.h"
#include "tests/unit/launcher/stacks/other_process.h"

namespace rueda::stacks_under_test {

volatile int depth_left = 0;

__attribute__((noinline)) void counts_at_the_bottom(Shared& shared) { count_up(shared); }

__attribute__((noinline)) void goes_deeper(Shared& shared) {
  depth_left = depth_left - 1;
  if (depth_left > 0) {
    goes_deeper(shared);
  } else {
    counts_at_the_bottom(shared);
  }
  depth_left = depth_left + 1;  // no call at the end: each one has a frame
}

}  // namespace rueda::stacks_under_test

namespace rueda {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class NativeStacks : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_native_stacks()) GTEST_SKIP() << "a build without libdw";
  }
};

// The last line of each thread.
std::vector<json> stacks_in(const ProcessSnapshot& snapshot) {
  std::vector<json> stacks;
  std::istringstream lines(output_of_child([&](int to) { write_native_stacks(snapshot, to); }, 1 << 20, 60s));
  for (std::string line; std::getline(lines, line);) stacks.push_back(json::parse(line));
  EXPECT_EQ(stacks.size() % 2, 0U);
  stacks.erase(stacks.begin(), stacks.begin() + static_cast<std::ptrdiff_t>(stacks.size() / 2));
  return stacks;
}

bool has(const json& frames, const std::string& name) {
  return std::ranges::any_of(
      frames, [&](const json& frame) { return frame.get<std::string>().find(name) != std::string::npos; });
}

TEST_F(NativeStacks, NameTheFunctionsOfAThread) {
  Shared& shared = make_shared_numbers();
  const OtherProcess other([&] {
    stacks_under_test::depth_left = 3;
    stacks_under_test::goes_deeper(shared);
  });
  ASSERT_TRUE(counts(shared));
  const std::vector<json> stacks = stacks_in(snapshot_of(other.id(), true));
  ASSERT_EQ(stacks.size(), threads_of(other.id()).size());
  EXPECT_EQ(stacks[0].at("id").get<pid_t>(), other.id());
  const json& frames = stacks[0].at("frames");
  EXPECT_TRUE(has(frames, "rueda::stacks_under_test::goes_deeper(rueda::Shared&) (")) << frames;
  EXPECT_TRUE(has(frames, "counts_at_the_bottom")) << frames;
  EXPECT_TRUE(counts(shared));
}

TEST_F(NativeStacks, OfADeepRecursionShowTheInnermost) {
  Shared& shared = make_shared_numbers();
  const OtherProcess other([&] {
    stacks_under_test::depth_left = 5000;
    stacks_under_test::goes_deeper(shared);
  });
  ASSERT_TRUE(counts(shared));
  const std::vector<json> stacks = stacks_in(snapshot_of(other.id(), true));
  ASSERT_EQ(stacks.size(), threads_of(other.id()).size());
  const json& frames = stacks[0].at("frames");
  EXPECT_EQ(frames.size(), 257U);
  EXPECT_EQ(frames.back(), "… and more");
  EXPECT_TRUE(has(frames, "counts_at_the_bottom"));
}

TEST_F(NativeStacks, OfAThreadOutsideOfAllFilesSayThat) {
  ProcessSnapshot snapshot{.process = 1, .mappings = "", .threads = {}};
  snapshot.threads.push_back({.facts = {.id = 1, .name = "x"}, .is_read = true, .stack = {}});
  EXPECT_EQ(stacks_in(snapshot).at(0).at("frames"), json({"unknown code"}));
}

// Files that are none of a program, devices, registers and stacks of any value: an answer comes.
TEST_F(NativeStacks, AreReadOfDamagedProcesses) {
  Shared& shared = make_shared_numbers();
  const OtherProcess other([&] { count_up(shared); });
  ASSERT_TRUE(counts(shared));
  const ProcessSnapshot good = snapshot_of(other.id(), true);
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    ProcessSnapshot bad = good;
    ProcessSnapshot::Thread& thread = bad.threads.at(0);
    if (round % 3 == 0) thread.registers[round % thread.registers.size()] = random();
    if (round % 3 == 1)
      for (std::byte& each : thread.stack.bytes) each = static_cast<std::byte>(random());
    if (round % 3 == 2) thread.stack.bytes.resize(random() % (thread.stack.bytes.size() + 1));
    if (round % 5 == 4) bad.mappings.resize(random() % (bad.mappings.size() + 1));
    bad.mappings +=
        "10000-20000 r-xp 00000000 00:00 7 /dev/zero\n30000-40000 r-xp 00000000 00:00 8 /etc/passwd\nx\n";
    EXPECT_EQ(stacks_in(bad).size(), good.threads.size()) << round;
  }
}

}  // namespace
}  // namespace rueda
