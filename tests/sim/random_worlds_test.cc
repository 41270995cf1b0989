// SPDX-License-Identifier: Apache-2.0
// Agreement in random worlds: hundreds of jobs of up to 2,000 ranks, each made from a seed, in which ranks
// are skewed, straggle, join, depart, differ, fail, use overlapping process sets that come and go, and get
// lost.
//   RUEDA_WORLD_SEED=N   that world alone
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/random_world.h"

namespace rueda {
namespace {

constexpr int kBatches = 10;
constexpr int kWorlds = RUEDA_RANDOM_WORLDS / kBatches;  // in each batch

// One of 2,000 ranks, one of 1,000 and three of 500 among 100; the others small, and of any size.
Rank size_of(std::uint32_t seed) {
  switch (seed % 100) {
    case 17: return 2000;
    case 42: return 1000;
    case 3:
    case 36:
    case 69: return 500;
    default: break;
  }
  std::mt19937 random(seed);
  const unsigned bits = 1 + random() % 6;
  return static_cast<Rank>(2 + random() % ((1u << bits) + (bits == 6 ? 35 : 0)));
}

void expect_agreement(std::uint32_t seed) {
  const WorldScript script = make_script(seed, size_of(seed));
  const std::vector<std::string> faults = RandomWorld(script).run();
  const std::size_t shown = std::min<std::size_t>(faults.size(), 5);
  EXPECT_TRUE(faults.empty()) << fmt::format(
      "world {} of {} ranks: {}\nOnce more: RUEDA_WORLD_SEED={} build/bin/random_worlds "
      "--gtest_filter=RandomWorlds.OneBySeed",
      seed, script.size, fmt::join(faults.begin(), faults.begin() + shown, "\n  "), seed);
}

class RandomWorldsTest : public testing::TestWithParam<int> {};

TEST_P(RandomWorldsTest, AgreeAndEnd) {
  for (int i = 0; i < kWorlds; ++i) {
    expect_agreement(static_cast<std::uint32_t>(GetParam() * kWorlds + i));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, RandomWorldsTest, testing::Range(0, kBatches));

TEST(RandomWorlds, OneBySeed) {
  const char* seed = std::getenv("RUEDA_WORLD_SEED");
  expect_agreement(seed == nullptr ? 4711 : static_cast<std::uint32_t>(std::stoul(seed)));
}

// Whatever the seeds become, the worlds have everything in them.
TEST(RandomWorlds, HaveEverything) {
  std::map<std::string, int> worlds;
  for (std::uint32_t seed = 0; seed < kBatches * kWorlds; ++seed) {
    const WorldScript script = make_script(seed, size_of(seed));
    std::set<std::string> here;
    if (script.lost) here.insert("a lost rank");
    if (std::ranges::find(script.leaves_early, true) != script.leaves_early.end()) here.insert("leavers");
    if (script.size >= 500) here.insert("many ranks");
    for (const Call& call : script.calls) {
      here.insert(std::string(to_string(call.request.operation)));
      if (call.odd >= 0) here.insert("a mismatch");
      if (call.unless_ok >= 0) here.insert("a removal in flight");
      if (!call.request.others.empty()) here.insert("a group");
      if (call.set > 0) here.insert("a process set");
      if (!call.fails_on.empty()) here.insert("a Work that fails");
    }
    for (const std::string& each : here) ++worlds[each];
  }
  EXPECT_EQ(worlds.size(), 8u + kOperationCount);
  for (const auto& [what, count] : worlds) EXPECT_GE(count, kBatches * kWorlds / 25) << what;
}

// The tests above see what they are made to see: either the product refuses it, or the judge does.
struct Mistake {
  std::string name;
  PlantedFault::Kind kind;
  std::vector<std::string> words;  // one of these is said of it in each world, and the first in some
  friend void PrintTo(const Mistake& mistake, std::ostream* stream) { *stream << mistake.name; }
};

class PlantedFaultTest : public testing::TestWithParam<Mistake> {};

TEST_P(PlantedFaultTest, IsCaughtInEveryWorld) {
  int planted = 0;
  std::size_t seen = 0;  // the first words
  for (std::uint32_t seed = 0; seed < 200 && planted < 25; ++seed) {
    const WorldScript script = make_script(seed, 3 + static_cast<Rank>(seed % 40), true);
    PlantedFault fault(GetParam().kind, seed);
    const std::vector<std::string> faults = RandomWorld(script, &fault).run();
    planted += fault.planted() ? 1 : 0;
    const std::string all = fmt::format("{}", fmt::join(faults, "\n"));
    ASSERT_EQ(faults.empty(), !fault.planted()) << "world " << seed << ": " << all;
    auto said = [&](const std::string& words) { return all.find(words) != std::string::npos; };
    EXPECT_EQ(std::ranges::any_of(GetParam().words, said), fault.planted())
        << "world " << seed << ": " << all;
    seen += said(GetParam().words.front()) ? 1 : 0;
  }
  EXPECT_EQ(planted, 25);
  EXPECT_GT(seen, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, PlantedFaultTest,
    testing::Values(
        Mistake{"SwappedPlans", PlantedFault::Kind::swapped_plans, {"Are all ranks of one build?"}},
        Mistake{"SwappedContents", PlantedFault::Kind::swapped_contents, {"got another Plan"}},
        Mistake{"DroppedBit", PlantedFault::Kind::dropped_bit, {"still waits for"}},
        Mistake{"EarlyBit",
                PlantedFault::Kind::early_bit,
                {"came early", "one request twice", "which no rank has to submit (again)"}},
        Mistake{"LostAbort", PlantedFault::Kind::lost_abort, {"still waits", "were told that Plan"}},
        Mistake{"ChangedAbort", PlantedFault::Kind::changed_abort, {"what nobody has said"}},
        Mistake{"ReusedId", PlantedFault::Kind::reused_id, {"; it was ", "is not in use"}}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace rueda
