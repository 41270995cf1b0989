// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/send_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/words_of.h"

namespace rueda {
namespace {

using testing::HasSubstr;

// Purpose: three ranks with one store.
class SendCountsTest : public testing::Test {
 protected:
  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
  SendCounts first_{store_, 0, 3}, second_{store_, 1, 3}, third_{store_, 2, 3};
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

TEST_F(SendCountsTest, MemoryOfAnotherHostIsToldWithTheRemedy) {
  SegmentHandle elsewhere{0x7fffffff, 3, 1, 4096};
  store_->set("rueda-sends/1", to_bytes(elsewhere));
  EXPECT_THAT(words_of([&] { first_.sent(1, 0); }), HasSubstr("Name the source"));
}

}  // namespace
}  // namespace rueda
