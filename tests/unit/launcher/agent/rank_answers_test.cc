// SPDX-License-Identifier: Apache-2.0
// Answers of ranks reach ruedarun in parts, and no slow one holds the agent up.
#include "launcher/agent/rank_answers.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <map>
#include <stdexcept>
#include <string>

#include "launcher/protocol/agent_message.h"
#include "tests/unit/launcher/agent/supervisor_ends.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

const agents::Request kStacks{.number = 7, .kind = agents::RequestKind::stacks, .text = ""};

// Purpose: an agent's loop, reduced to its answers, and ruedarun, which takes them.
struct Talk {
  // Of each rank that has answered wholly.
  std::map<int, std::string> run(std::size_t ranks, std::chrono::milliseconds longest = 10s) {
    const auto until = std::chrono::steady_clock::now() + longest;
    while (whole.size() < ranks && std::chrono::steady_clock::now() < until) {
      pollfd wait{answers.descriptor(), POLLIN, 0};
      ::poll(&wait, 1, answers.next_time() ? 1 : 20);
      answers.act(line.agent);
      std::size_t cost = 0;
      for (const agents::Message& message : line.arrived()) {
        cost += agents::cost_of(agents::encode(message));
        take(std::get<agents::AnswerPart>(message));
      }
      if (cost > 0) line.ruedarun.send(agents::encode(agents::Credit{static_cast<std::uint32_t>(cost)}));
    }
    return whole;
  }
  void take(const agents::AnswerPart& part) {
    EXPECT_GE(part.number, 7u);
    EXPECT_LE(part.number, 9u);
    begun[part.rank] += part.bytes;
    ++parts;
    if (part.is_last) whole[part.rank] = begun[part.rank];
  }

  Line line;
  RankAnswers answers;
  std::map<int, std::string> begun, whole;
  int parts = 0;
};

TEST(RankAnswers, ComeInPartsAndInOrder) {
  Talk talk;
  const std::string text(300'000, 'x');
  talk.answers.ask(kStacks, 0, [&] { return text + "0"; });
  talk.answers.ask(kStacks, 1, [] { return ""; });
  talk.answers.ask(kStacks, 2, [&] { return text + "2"; });
  const auto whole = talk.run(3);
  EXPECT_EQ(whole.at(0), text + "0");
  EXPECT_EQ(whole.at(1), "");
  EXPECT_EQ(whole.at(2), text + "2");
  EXPECT_GT(talk.parts, 70);
  EXPECT_FALSE(talk.answers.next_time());
}

TEST(RankAnswers, ManyLongOnesNeedLittleMemory) {
  Talk talk;
  std::atomic<int> made{0};
  for (int rank = 0; rank < 40; ++rank)
    talk.answers.ask(kStacks, rank, [&] {
      ++made;
      return std::string(1 << 20, 'x');
    });
  std::this_thread::sleep_for(100ms);
  EXPECT_LE(made, 9) << "the others wait until there is room";
  EXPECT_EQ(talk.run(40, 60s).size(), 40u);
}

// A dump must not cost the stacks that somebody waits for.
TEST(RankAnswers, ARequestLeavesThoseOfOtherKindsAlone) {
  Talk talk;
  std::atomic<bool> goes_on{false};
  talk.answers.ask(kStacks, 0, [&] {
    while (!goes_on) std::this_thread::sleep_for(1ms);
    return "0";
  });
  for (int rank = 1; rank < 4; ++rank) talk.answers.ask(kStacks, rank, [=] { return std::to_string(rank); });
  const agents::Request dump{.number = 9, .kind = agents::RequestKind::recordings, .text = ""};
  for (int rank = 4; rank < 8; ++rank) talk.answers.ask(dump, rank, [=] { return std::to_string(rank); });
  goes_on = true;
  const auto whole = talk.run(8);
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(whole.at(rank), std::to_string(rank));
}

TEST(RankAnswers, ALaterRequestOfTheKindEndsTheOneBefore) {
  Talk talk;
  std::atomic<bool> goes_on{false}, has_begun{false}, is_made{false};
  talk.answers.ask(kStacks, 0, [&] {
    has_begun = true;
    while (!goes_on) std::this_thread::sleep_for(1ms);
    return "0";
  });
  talk.answers.ask(kStacks, 1, [&] {
    is_made = true;
    return "1";
  });
  while (!has_begun) std::this_thread::sleep_for(1ms);
  talk.answers.ask({.number = 8, .kind = agents::RequestKind::stacks, .text = ""}, 2, [] { return "2"; });
  EXPECT_EQ(talk.run(1), (std::map<int, std::string>{{1, ""}})) << "at once";
  goes_on = true;
  EXPECT_EQ(talk.run(3), (std::map<int, std::string>{{0, "0"}, {1, ""}, {2, "2"}}));
  EXPECT_FALSE(is_made);
}

TEST(RankAnswers, OneThatFailsIsEmpty) {
  Talk talk;
  talk.answers.ask(kStacks, 0, []() -> std::string { throw std::runtime_error("no such process"); });
  talk.answers.ask(kStacks, 1, [] { return "well"; });
  EXPECT_EQ(talk.run(2), (std::map<int, std::string>{{0, ""}, {1, "well"}}));
}

TEST(RankAnswers, TheEndDropsThoseThatWait) {
  std::atomic<int> made{0};
  {
    RankAnswers answers;
    for (int rank = 0; rank < 1000; ++rank)
      answers.ask(kStacks, rank, [&] {
        std::this_thread::sleep_for(10ms);
        ++made;
        return "";
      });
  }
  EXPECT_LT(made, 100);
}

}  // namespace
}  // namespace rueda
