// SPDX-License-Identifier: Apache-2.0
// The loop around a training function, with a job that only notes its calls.
#include "frameworks/torch/elastic/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace rueda::elastic {
namespace {

using testing::ElementsAre;

// Purpose: a state of one number, and the calls of a loop in their order.
class LoopOfTraining : public testing::Test {
 protected:
  // The function does `ends` in its calls, one after another.
  void run(const std::vector<std::function<void()>>& ends) {
    state.on_reset([this] { calls.push_back("callback"); });
    std::size_t call = 0;
    loop(state,
         [&] {
           calls.push_back("function");
           ends.at(call++)();
         },
         {[this] { calls.push_back("synchronise"); },
          [this](const std::optional<Error>& failure) {
            number_at_begin = number;
            calls.push_back(failure ? std::string("begin after ") + failure->what() : "begin");
          }});
  }

  void set_and_throw(std::int64_t value, StatusCode code) {
    number = value;
    throw_if_error({code, "words"});
  }

  std::int64_t number = 1, number_at_begin = 0;
  State state{{{"number", number}}};
  std::vector<std::string> calls;
};

TEST_F(LoopOfTraining, EndsWithTheFunction) {
  run({[] {}});
  EXPECT_THAT(calls, ElementsAre("synchronise", "function"));
}

TEST_F(LoopOfTraining, RestoresAfterAFailureWhenTheJobHasBegunAnew) {
  for (const StatusCode code : {StatusCode::peer_lost, StatusCode::shut_down, StatusCode::stalled,
                                StatusCode::mismatch, StatusCode::backend_error}) {
    calls.clear();
    number = 1;
    state.save();
    run({[&] { set_and_throw(7, code); }, [] {}});
    EXPECT_EQ(number_at_begin, 7) << "restored too early";
    EXPECT_EQ(number, 1);
    EXPECT_EQ(calls[0], "synchronise");
    EXPECT_EQ(calls[2], "begin after words");
    EXPECT_EQ(calls[3], "callback");
    EXPECT_EQ(calls.back(), "function");
    state = State({{"number", number}});
  }
}

TEST_F(LoopOfTraining, KeepsTheStateWhenWorkersHaveChanged) {
  run({[&] {
         number = 7;
         throw WorkersChanged({.added = true});
       },
       [] {}});
  EXPECT_EQ(number, 7);
  state.restore();
  EXPECT_EQ(number, 7);
  EXPECT_EQ(state.commits(), 1);
  EXPECT_THAT(calls, ElementsAre("synchronise", "function", "begin", "callback", "synchronise", "function"));
}

TEST_F(LoopOfTraining, ACommitThatIsInterruptedCountsOnce) {
  state.hear_by([] { return MembershipChange{.added = true, .since = 4.0}; });
  run({[&] {
         number = 7;
         state.commit();
       },
       [&] { state.commit(); }});
  EXPECT_EQ(number, 7);
  EXPECT_EQ(state.commits(), 2);
  EXPECT_EQ(calls.size(), 6U) << "the same news has interrupted twice";
}

TEST_F(LoopOfTraining, AFailureOfTheSynchronisationIsOneOfTheJob) {
  int tries = 0;
  loop(state, [] {},
       {[&] {
          if (++tries < 3) throw_if_error(Status::peer_lost("lost"));
        },
        [&](const auto&) { calls.push_back("begin"); }});
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(calls.size(), 2U);
}

TEST_F(LoopOfTraining, IsLeftByErrorsThatWouldComeAgain) {
  EXPECT_THROW(run({[&] { set_and_throw(7, StatusCode::invalid_argument); }}), InvalidArgument);
  EXPECT_THROW(run({[&] { set_and_throw(7, StatusCode::not_initialized); }}), NotInitialized);
  EXPECT_THROW(run({[] { throw std::runtime_error("mine"); }}), std::runtime_error);
  EXPECT_EQ(number, 7);
  EXPECT_EQ(std::ranges::count(calls, "callback"), 0);
}

}  // namespace
}  // namespace rueda::elastic
