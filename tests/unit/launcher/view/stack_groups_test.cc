// SPDX-License-Identifier: Apache-2.0
// Ranks at the same place are one group, and no answer of a rank does harm.
#include "launcher/view/stack_groups.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <optional>

#include "rueda/training.h"

namespace rueda {
namespace {

using nlohmann::json;

std::string answer(const std::vector<std::string>& python, const std::vector<std::string>& native,
                   std::optional<Phase> phase = {}, std::uint64_t step = 0) {
  json thread{{"id", 7}, {"name", "main"}, {"state", "S"}, {"waits", "futex_wait"}};
  if (!python.empty()) thread["python"] = python;
  if (!native.empty()) thread["frames"] = native;
  json whole{{"process", 7}, {"threads", {thread}}, {"notes", json::array()}};
  if (phase) whole.update({{"phase", static_cast<int>(*phase)}, {"step", step}});
  return whole.dump();
}

// As of a moment that is not that of the stacks.
json known(int worker, int rank, const std::string& name) {
  json facts{{"worker", worker}, {"name", name}, {"host", "h0"}, {"phase", "step"}, {"step", 1}};
  if (rank >= 0) facts["rank"] = rank;
  return facts;
}
json known(int rank) { return known(rank, rank, fmt::format("rank {}", rank)); }

TEST(StackGroups, TheSmallestComesFirst) {
  std::map<int, std::string> answers;
  json facts = json::array();
  for (int rank = 0; rank < 8; ++rank) {
    const bool is_late = rank == 3;
    answers[rank] = answer({is_late ? "load (data.py:5)" : "step (train.py:9)"}, {"poll (libc.so.6)"},
                           is_late ? Phase::data : Phase::wait, is_late ? 11 : 12);
    facts.push_back(known(rank));
  }
  const json stacks = stacks_of_ranks(answers, {8}, facts);
  ASSERT_EQ(stacks.at("groups").size(), 2U);
  const json& first = stacks.at("groups")[0];
  EXPECT_EQ(first.at("ranks"), json({3}));
  EXPECT_EQ(first.at("kind"), "python");
  EXPECT_EQ(first.at("phase"), "data");
  EXPECT_EQ(first.at("step"), "11");
  EXPECT_EQ(first.at("frames"), json({"load (data.py:5)"}));
  EXPECT_EQ(stacks.at("groups")[1].at("ranks").size(), 7U);
  EXPECT_EQ(stacks_text(stacks, false),
            "8 ranks: the main threads are at 2 places\n\n"
            "rank 3 (data, step 11)\n    load (data.py:5)\n\n"
            "7 ranks: 0-2,4-7 (wait, step 12)\n    step (train.py:9)\n\n"
            "no answer from rank 8\n");
  const std::string all = stacks_text(stacks, true);
  EXPECT_NE(
      all.find(
          "rank 3, process 7 on h0\n  thread 7 main (S, futex_wait)\n    Python:\n      load (data.py:5)\n"
          "    native:\n      poll (libc.so.6)\n"),
      std::string::npos)
      << all;
}

TEST(StackGroups, NativeStacksCountWhereThereIsNoPython) {
  const json stacks = stacks_of_ranks({{0, answer({}, {"f (a.cc:1)"})},
                                       {1, answer({}, {"f (a.cc:1)"})},
                                       {2, answer({"f (a.cc:1)"}, {})},
                                       {3, answer({}, {})}},
                                      {}, json::array());
  ASSERT_EQ(stacks.at("groups").size(), 3U);
  EXPECT_EQ(stacks.at("groups")[0].at("kind"), "python");
  EXPECT_EQ(stacks.at("groups")[1].at("kind"), "none");
  EXPECT_EQ(stacks.at("groups")[2].at("kind"), "native");
  EXPECT_EQ(stacks.at("groups")[2].at("ranks"), json({0, 1}));
}

TEST(StackGroups, PhasesAndStepsOfAGroupMayDiffer) {
  const json stacks = stacks_of_ranks({{0, answer({"f"}, {}, Phase::wait, 4)},
                                       {1, answer({"f"}, {}, Phase::data, 6)},
                                       {2, answer({"f"}, {}, Phase::wait, 5)}},
                                      {}, json::array());
  EXPECT_EQ(stacks.at("groups")[0].at("phase"), "data (1), wait (2)");
  EXPECT_EQ(stacks.at("groups")[0].at("step"), "4 to 6");
}

// Workers 0 and 2 are lost, workers 5 and 6 wait for a generation.
TEST(StackGroups, RanksAreThoseOfTheGenerationAndSparesAreNone) {
  const json facts{known(1, 0, "rank 0 (worker 1)"), known(3, 1, "rank 1 (worker 3)"),
                   known(4, 2, "rank 2 (worker 4)"), known(5, -1, "worker 5, a spare"),
                   known(6, -1, "worker 6, a spare")};
  const json stacks = stacks_of_ranks({{1, answer({"f"}, {}, Phase::wait, 9)},
                                       {3, answer({"g"}, {}, Phase::data, 9)},
                                       {4, answer({"f"}, {}, Phase::wait, 9)},
                                       {5, answer({"f"}, {})}},
                                      {6}, facts);
  EXPECT_EQ(stacks_text(stacks, false),
            "3 ranks: the main threads are at 2 places\n\n"
            "rank 1 (worker 3) (data, step 9)\n    g\n\n"
            "2 ranks: 0,2 (wait, step 9)\n    f\n\n"
            "worker 5, a spare\n    f\n\n"
            "no answer from worker 6, a spare\n");
  EXPECT_EQ(stacks.at("groups")[1].at("ranks"), json({0, 2}));
  EXPECT_EQ(stacks.at("groups")[2].at("ranks"), json::array());
  EXPECT_NE(stacks_text(stacks, true).find("\nworker 5, a spare, process 7 on h0\n"), std::string::npos);
}

TEST(StackGroups, APhaseThatIsNoneIsLeftOut) {
  for (const char* phase : {"9", "-1", "1.5", "\"wait\"", "1e99", "null"}) {
    const json stacks = stacks_of_ranks(
        {{0, fmt::format(R"({{"threads": [], "notes": [], "phase": {0}, "step": {0}}})", phase)}}, {},
        json::array());
    EXPECT_EQ(stacks.at("groups")[0].at("phase"), "") << phase;
    EXPECT_EQ(stacks.at("groups")[0].at("step"), std::string(phase) == "9" ? "9" : "") << phase;
  }
}

TEST(StackGroups, AnyTextIsAnAnswer) {
  const std::map<int, std::string> answers{
      {0, ""},
      {1, "[]"},
      {2, "{\"threads\": 5, \"notes\": \"x\"}"},
      {3, "{\"threads\": [1, {\"id\": \"x\", \"frames\": [2, \"f\"]}], \"process\": \"y\"}"},
      {4, std::string(100000, '[')},
      {5, answer({"\x1b[31mred"}, {})}};
  const json stacks = stacks_of_ranks(answers, {}, json::array());
  EXPECT_EQ(stacks.at("ranks").size(), 6U);
  const std::string text = stacks_text(stacks, true);
  EXPECT_NE(text.find("ranks 0-1,4: its answer is damaged"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("?[31mred"), std::string::npos);
}

}  // namespace
}  // namespace rueda
