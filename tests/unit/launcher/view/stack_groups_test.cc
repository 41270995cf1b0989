// SPDX-License-Identifier: Apache-2.0
// Ranks at the same place are one group, and no answer of a rank does harm.
#include "launcher/view/stack_groups.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace rueda {
namespace {

using nlohmann::json;

std::string answer(const std::vector<std::string>& python, const std::vector<std::string>& native) {
  json thread{{"id", 7}, {"name", "main"}, {"state", "S"}, {"waits", "futex_wait"}};
  if (!python.empty()) thread["python"] = python;
  if (!native.empty()) thread["frames"] = native;
  return json{{"process", 7}, {"threads", {thread}}, {"notes", json::array()}}.dump();
}

json known(int rank, const std::string& phase, std::uint64_t step) {
  return {{"rank", rank},
          {"name", fmt::format("rank {}", rank)},
          {"host", "h0"},
          {"phase", phase},
          {"step", step}};
}

TEST(StackGroups, TheSmallestComesFirst) {
  std::map<int, std::string> answers;
  json facts = json::array();
  for (int rank = 0; rank < 8; ++rank) {
    const bool is_late = rank == 3;
    answers[rank] = answer({is_late ? "load (data.py:5)" : "step (train.py:9)"}, {"poll (libc.so.6)"});
    facts.push_back(known(rank, is_late ? "data" : "wait", is_late ? 11 : 12));
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
  const json facts{known(0, "wait", 4), known(1, "data", 6), known(2, "wait", 5)};
  const json stacks =
      stacks_of_ranks({{0, answer({"f"}, {})}, {1, answer({"f"}, {})}, {2, answer({"f"}, {})}}, {}, facts);
  EXPECT_EQ(stacks.at("groups")[0].at("phase"), "data (1), wait (2)");
  EXPECT_EQ(stacks.at("groups")[0].at("step"), "4 to 6");
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
