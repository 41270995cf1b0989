// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/monitored_barrier.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
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
      barriers_.push_back(
          std::make_unique<MonitoredBarrier>(store_, rank, kRanks, [this] { return failure(); }));
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

  std::string words_of_rank(int rank, std::chrono::milliseconds timeout) {
    return call({rank}, timeout, false)[0];
  }
  // From now on the group cannot go on.
  void lose(const std::string& words) {
    const std::lock_guard lock(mutex_);
    failure_ = Status::peer_lost(words);
  }
  Status failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  std::mutex mutex_;
  Status failure_;  // guarded by mutex_
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
  EXPECT_THAT(words[1], HasSubstr("Please check rank 0 logs for faulty rank. It has missed: 2, 3."));
}

TEST_F(MonitoredBarrierTest, AllMissingRanksAreNamed) {
  const std::vector<std::string> words = call({0, 2}, 300ms, true);
  EXPECT_THAT(words[0], HasSubstr("Ranks 1, 3 failed to pass monitoredBarrier"));
  EXPECT_THAT(words[1], HasSubstr("It has missed: 1, 3."));
}

// Its first call belongs to the first one of the others, and not to their next one.
TEST_F(MonitoredBarrierTest, ARankThatComesTooLateIsToldAtOnceAndPassesTheNextCall) {
  call({0, 1, 2}, 300ms, true);
  const Time begun = clock_now();
  EXPECT_THAT(words_of_rank(3, 60s),
              HasSubstr("[Rank 3]: Rank 3 came too late to monitoredBarrier number 1"));
  EXPECT_LT(clock_now() - begun, 10s);
  for (const std::string& words : call({0, 1, 2, 3}, 60s, false)) EXPECT_EQ(words, "nothing thrown");
}

TEST_F(MonitoredBarrierTest, ALateRankDoesNotPassWithTheNextCallOfTheOthers) {
  call({0, 1, 2}, 100ms, true);
  const std::vector<std::string> words = call({0, 1, 2, 3}, 500ms, true);
  EXPECT_THAT(words[0], HasSubstr("Rank 3 failed to pass monitoredBarrier"));
  EXPECT_THAT(words[1], HasSubstr("It has missed: 3."));
  EXPECT_THAT(words[3], HasSubstr("Rank 3 came too late to monitoredBarrier number 1"));
}

TEST_F(MonitoredBarrierTest, RankZeroHearsThatOthersHaveGivenUpBeforeItCame) {
  EXPECT_THAT(call({1, 2, 3}, 100ms, false)[0], HasSubstr("It has not answered in 100 ms."));
  const Time begun = clock_now();
  EXPECT_THAT(words_of_rank(0, 60s),
              AllOf(HasSubstr("Rank 1 failed to pass"), HasSubstr("the call was given up by 1, 2, 3")));
  EXPECT_LT(clock_now() - begun, 10s);
  for (const std::string& words : call({0, 1, 2, 3}, 60s, false)) EXPECT_EQ(words, "nothing thrown");
}

TEST_F(MonitoredBarrierTest, ALostRankEndsItForAllOthers) {
  std::thread loses([this] {
    std::this_thread::sleep_for(200ms);
    lose("rank 3 is lost");
  });
  const Time begun = clock_now();
  const std::vector<std::string> words = call({0, 1, 2}, 60s, false);
  EXPECT_LT(clock_now() - begun, 10s);
  loses.join();
  for (std::size_t rank = 0; rank < words.size(); ++rank)
    EXPECT_THAT(words[rank],
                HasSubstr("[Rank " + std::to_string(rank) + "]: monitoredBarrier number 1: rank 3 is lost"));
}

// All had arrived, so the barrier is over. A rank that looks only then passes, too.
TEST_F(MonitoredBarrierTest, ALossAfterAllHaveArrivedIsNoneOfTheBarrier) {
  for (int rank = 1; rank < kRanks; ++rank)
    store_->set("rueda-barrier/arrived/" + std::to_string(rank), "1+");
  lose("rank 3 is lost");
  EXPECT_EQ(words_of_rank(0, 60s), "nothing thrown");
  EXPECT_EQ(words_of_rank(1, 60s), "nothing thrown");
  EXPECT_THAT(words_of_rank(1, 60s), HasSubstr("rank 3 is lost")) << "the next call";
}

TEST_F(MonitoredBarrierTest, OtherWordsInTheStoreAreRefused) {
  for (const char* words : {"", "x", "12", "99999999999999999999+"}) {
    store_->set("rueda-barrier/released/1", words);
    EXPECT_THAT(words_of_rank(1, 60s), HasSubstr("has no word of a call at rueda-barrier/released/1"))
        << words;
  }
}

// Purpose: a store in a process that ends.
class StoreThatEnds final : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>& keys) override {
    static_cast<void>(keys);
    C10_THROW_ERROR(DistNetworkError, "the connection is closed");
  }
};

TEST_F(MonitoredBarrierTest, ALossOfTheStoreIsToldAsThatOfItsRank) {
  MonitoredBarrier barrier(c10::make_intrusive<StoreThatEnds>(), 1, kRanks, [this] { return failure(); });
  const auto words = [&] { return words_of<c10::DistBackendError>([&] { barrier.wait(60s, false); }); };
  EXPECT_THAT(words(), HasSubstr("cannot ask the group's store: the connection is closed"));
  std::thread loses([this] {
    std::this_thread::sleep_for(100ms);
    lose("rank 0 is lost");
  });
  EXPECT_THAT(words(), HasSubstr("monitoredBarrier number 2: rank 0 is lost"));
  loses.join();
}

TEST_F(MonitoredBarrierTest, RankZeroAloneWithoutTimeEndsAtOnce) {
  EXPECT_THAT(call({0}, 0ms, false)[0], HasSubstr("timed out in monitoredBarrier after 0 ms"));
}

}  // namespace
}  // namespace rueda
