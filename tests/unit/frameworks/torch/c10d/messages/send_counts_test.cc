// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/send_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/store_of_far_ranks.h"
#include "tests/support/words_of.h"

namespace rueda {
namespace {

using testing::HasSubstr;

// Purpose: three ranks with one store.
class SendCountsTest : public testing::Test {
 protected:
  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
  SendCounts first_{store_, 0, 3, false}, second_{store_, 1, 3, false}, third_{store_, 2, 3, false};
};

TEST_F(SendCountsTest, ARankThatHasSentNothingHasNoMemory) {
  EXPECT_EQ(first_.sent(1, 0), 0u);
  EXPECT_FALSE(store_->check({"rueda-sends/1"}));
}

TEST_F(SendCountsTest, EachReceiverAndTagIsCountedForItself) {
  second_.note(0, 7);
  second_.note(0, 7);
  second_.note(0, 0);
  second_.note(2, 7);
  EXPECT_EQ(first_.sent(1, 7), 2u);
  EXPECT_EQ(first_.sent(1, 0), 1u);
  EXPECT_EQ(first_.sent(1, 8), 0u);
  EXPECT_EQ(third_.sent(1, 7), 1u);
  EXPECT_EQ(first_.sent(2, 7), 0u);
  second_.note(0, 7);
  EXPECT_EQ(first_.sent(1, 7), 3u) << "the memory is open already";
}

TEST_F(SendCountsTest, TooManyTagsAreToldInsteadOfAMessageThatNeverComes) {
  for (int tag = 0; tag < 65; ++tag) second_.note(0, tag);
  EXPECT_EQ(first_.sent(1, 63), 1u);
  EXPECT_THAT(words_of([&] { first_.sent(1, 64); }),
              HasSubstr("rank 1 has sent messages of more than 64 tags"));
}

TEST_F(SendCountsTest, MemoryOfThisHostThatCannotBeReadIsToldWithTheRemedy) {
  SegmentHandle elsewhere{0x7fffffff, 3, 1, 4096};
  store_->set("rueda-sends/1", to_bytes(elsewhere));
  EXPECT_THAT(words_of([&] { first_.sent(1, 0); }), HasSubstr("Name the source"));
}

// Until the count has come by the store.
std::uint64_t heard(SendCounts& receiver, int from, int tag, std::uint64_t wanted) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::uint64_t sent = receiver.sent(from, tag);
  while (sent != wanted && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    receiver.look_elsewhere();
    sent = receiver.sent(from, tag);
  }
  return sent;
}

TEST(SendCountsOverHosts, RanksOfOtherHostsHearByTheStoreOnceTheyHaveAsked) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<StoreOfFarRanks>();
  SendCounts first(store, 0, 3, true), second(store, 1, 3, true), third(store, 2, 3, true);
  EXPECT_EQ(first.sent(1, 7), 0u);
  second.note(0, 7);
  second.note(0, 7);
  second.note(0, 0);
  second.note(2, 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(store->check({"rueda-sends-to/0/1"})) << "nobody has asked";
  EXPECT_EQ(heard(first, 1, 7, 2), 2u);
  EXPECT_EQ(heard(first, 1, 0, 1), 1u);
  EXPECT_EQ(first.sent(1, 8), 0u);
  EXPECT_EQ(heard(third, 1, 7, 1), 1u) << "it has been published before this rank asked";
  second.note(0, 8);
  EXPECT_EQ(heard(first, 1, 8, 1), 1u);
}

TEST(SendCountsOverHosts, TooManyTagsAreTold) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<StoreOfFarRanks>();
  SendCounts first(store, 0, 3, true), second(store, 1, 3, true);
  for (int tag = 0; tag < 65; ++tag) second.note(0, tag);
  EXPECT_EQ(heard(first, 1, 63, 1), 1u);
  EXPECT_THAT(words_of([&] { first.sent(1, 64); }),
              HasSubstr("rank 1 has sent messages of more than 64 tags"));
}

}  // namespace
}  // namespace rueda
