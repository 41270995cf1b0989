// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/monitored_barrier.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "tests/support/words_of.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kRanks = 4;

// Purpose: the barriers of some ranks, which are threads. A barrier counts its calls, so each rank has one.
class MonitoredBarrierTest : public testing::Test {
 protected:
  MonitoredBarrierTest() {
    for (int rank = 0; rank < kRanks; ++rank)
      barriers_.push_back(std::make_unique<MonitoredBarrier>(store_, rank, kRanks));
  }

  // The words with which each of these ranks ends.
  std::vector<std::string> call(const std::vector<int>& ranks, std::chrono::milliseconds timeout,
                                bool names_all) {
    std::vector<std::string> words(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] {
        words[i] = words_of<c10::DistBackendError>(
            [&] { barriers_[static_cast<std::size_t>(ranks[i])]->wait(timeout, names_all); });
      });
    }
    for (std::thread& each : threads) each.join();
    return words;
  }

  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::unique_ptr<MonitoredBarrier>> barriers_;
};

TEST_F(MonitoredBarrierTest, AllPassAgainAndAgain) {
  for (int time = 0; time < 3; ++time) {
    for (const std::string& words : call({0, 1, 2, 3}, 60s, false)) EXPECT_EQ(words, "nothing thrown");
  }
}

TEST_F(MonitoredBarrierTest, TheFirstMissingRankIsNamed) {
  const std::vector<std::string> words = call({0, 1}, 300ms, false);
  EXPECT_THAT(words[0], AllOf(HasSubstr("[Rank 0]: Rank 2 failed to pass monitoredBarrier"),
                              Not(HasSubstr("3 failed"))));
  EXPECT_THAT(words[1], HasSubstr("Please check rank 0 logs for faulty rank"));
}

TEST_F(MonitoredBarrierTest, AllMissingRanksAreNamed) {
  EXPECT_THAT(call({0, 2}, 300ms, true)[0], HasSubstr("Ranks 1, 3 failed to pass monitoredBarrier"));
}

// Ranks that fail leave nothing in the store that a later call could take for an arrival.
TEST_F(MonitoredBarrierTest, PassesAfterACallThatHasFailed) {
  call({0, 1, 2}, 300ms, true);
  EXPECT_THAT(words_of<c10::DistBackendError>([&] { barriers_[3]->wait(100ms, false); }),
              HasSubstr("[Rank 3]"));
  for (const std::string& words : call({0, 1, 2, 3}, 60s, false)) EXPECT_EQ(words, "nothing thrown");
}

TEST_F(MonitoredBarrierTest, RankZeroAloneWithoutTimeEndsAtOnce) {
  EXPECT_THAT(call({0}, 0ms, false)[0], HasSubstr("timed out in monitoredBarrier after 0 ms"));
}

}  // namespace
}  // namespace rueda
