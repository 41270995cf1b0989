// SPDX-License-Identifier: Apache-2.0
// Wishes of those who watch a job reach its ranks.
#include "launcher/page/job_actions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

namespace rueda {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class JobActionsTest : public testing::Test {
 protected:
  JobActionsTest() : folder_(testing::TempDir()) {
    for (const int rank : {0, 1}) actions_.note_started(rank, 0);
  }

  // Somebody asks, and the loop takes a turn.
  std::future<json> ask(Inquiry inquiry, const std::string& words = "") {
    auto answer = std::async(std::launch::async, [this, inquiry, words] {
      const EventFeed::Text text = feed_.ask(inquiry, words);
      return text ? json::parse(*text) : json();
    });
    EventFeed::Wanted wanted;
    for (int i = 0; i < 1000 && !wanted.wants(inquiry); ++i, std::this_thread::sleep_for(1ms))
      wanted = feed_.take_wanted();
    actions_.act(feed_, wanted, true, now_);
    return answer;
  }
  void turn() { actions_.act(feed_, feed_.take_wanted(), true, now_); }
  void train(std::uint64_t steps) {
    for (; steps > 0; --steps) actions_.note_step(0, ++step_, now_ += 100ms);
  }
  void answer_all(const std::string& words) {
    const std::uint32_t number = std::get<agents::Request>(told_.back()).number;
    for (const int rank : {0, 1}) actions_.hear(0, {number, rank, true, words});
    turn();
  }

  const std::string folder_;
  EventFeed feed_;
  std::vector<agents::Message> told_;
  std::vector<std::string> said_;
  int stops_ = 0;
  JobActions::Time now_{1h};
  std::uint64_t step_ = 0;
  JobActions actions_{{.tell = [this](const agents::Message& message) { told_.push_back(message); },
                       .say = [this](const std::string&, const std::string& text) { said_.push_back(text); },
                       .stop = [this] { ++stops_; },
                       .ranks =
                           [] {
                             return json::array({{{"rank", 0}, {"worker", 0}, {"name", "rank 0"}},
                                                 {{"rank", 1}, {"worker", 1}, {"name", "rank 1"}},
                                                 {{"worker", 2}, {"name", "worker 2, a spare"}}});
                           },
                       .folder = folder_}};
};

TEST_F(JobActionsTest, ATimelineBeginsBehindTheStepsThatRanksMayHavePassed) {
  train(20);  // ten a second
  std::future<json> answer = ask(Inquiry::timeline, "5");
  ASSERT_EQ(told_.size(), 1u);
  const auto request = agents::timeline_request_from(std::get<agents::Request>(told_.front()).text);
  ASSERT_TRUE(request);
  EXPECT_GE(request->first, 30u);
  EXPECT_LE(request->first, 33u);
  EXPECT_EQ(request->last, request->first + 5);
  EXPECT_TRUE(actions_.is_busy());
  answer_all("");
  const json told = answer.get();
  EXPECT_EQ(told.at("file"), request->path);
  EXPECT_EQ(told.at("last_step"), request->last - 1);
  std::ofstream(request->path) << "[]";
  while (step_ < request->last) train(1);
  turn();
  EXPECT_TRUE(said_.empty()) << "rank 0 puts files together";
  now_ += 3s;
  turn();
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_.front().find(request->path), std::string::npos);
  EXPECT_FALSE(actions_.is_busy());
  ::unlink(request->path.c_str());
}

TEST_F(JobActionsTest, ATimelineThatIsNotWrittenIsTold) {
  train(3);
  std::future<json> answer = ask(Inquiry::timeline);
  answer_all("");
  answer.get();
  EXPECT_EQ(ask(Inquiry::timeline).get().at("error").get<std::string>().find(folder_), 0u) << "one at a time";
  train(100);
  turn();
  now_ += 60s;
  turn();
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_.front().find("has not been written"), std::string::npos);
}

TEST_F(JobActionsTest, ATimelineWithoutStepsIsGivenUp) {
  train(3);
  std::future<json> answer = ask(Inquiry::timeline);
  answer_all("");
  answer.get();
  now_ += 59s;
  turn();
  EXPECT_TRUE(actions_.is_busy());
  now_ += 2s;
  turn();
  EXPECT_FALSE(actions_.is_busy());
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_.front().find("no step has ended"), std::string::npos);
}

TEST_F(JobActionsTest, AnotherTrainingCountsFromZero) {
  train(50);
  step_ = 0;
  train(3);
  std::future<json> answer = ask(Inquiry::timeline);
  EXPECT_LT(agents::timeline_request_from(std::get<agents::Request>(told_.front()).text)->first, 50u);
  answer_all("");
  answer.get();
}

TEST_F(JobActionsTest, ATimelineIsRefusedWhereNobodyCouldMakeOne) {
  EXPECT_TRUE(ask(Inquiry::timeline).get().contains("error")) << "no step has ended";
  train(3);
  for (const char* steps : {"0", "-1", "many", "100001"})
    EXPECT_TRUE(ask(Inquiry::timeline, steps).get().contains("error")) << steps;
  EXPECT_TRUE(told_.empty());
  std::future<json> answer = ask(Inquiry::timeline);
  answer_all("it is no process of Rueda, or has ended");
  EXPECT_TRUE(answer.get().contains("error"));
  EXPECT_FALSE(actions_.is_busy());
}

TEST_F(JobActionsTest, SortsTheStacksOfRanks) {
  std::future<json> answer = ask(Inquiry::stacks);
  ASSERT_EQ(std::get<agents::Request>(told_.back()).kind, agents::RequestKind::stacks);
  const std::uint32_t number = std::get<agents::Request>(told_.back()).number;
  const json thread{{"id", 5}, {"frames", {"f (a.cc:1)"}}};
  const json told{{"process", 5}, {"threads", {thread}}, {"notes", json::array()}, {"phase", 4}, {"step", 3}};
  actions_.hear(0, {number, 1, true, told.dump()});
  turn();
  EXPECT_TRUE(actions_.is_busy());
  now_ += 20s;  // rank 0 has not answered
  while (answer.wait_for(1ms) != std::future_status::ready) turn();
  const json stacks = answer.get();
  EXPECT_EQ(stacks.at("silent"), json({"rank 0"}));
  EXPECT_EQ(stacks.at("groups").at(0).at("phase"), "wait");
  const std::string text = stacks.at("text").get<std::string>();
  EXPECT_NE(text.find("rank 1 (wait, step 3)\n    f (a.cc:1)\n"), std::string::npos) << text;
  EXPECT_FALSE(actions_.is_busy());
}

TEST_F(JobActionsTest, AsksTheJobToStop) {
  EXPECT_TRUE(ask(Inquiry::stop).get().at("asked").get<bool>());
  EXPECT_EQ(stops_, 1);
  EXPECT_EQ(said_.size(), 1u);
}

}  // namespace
}  // namespace rueda
