// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/send_notices.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

namespace rueda {
namespace {

TEST(TagCounts, AreReadAsTheyWereWritten) {
  TagCounts counts;
  for (int i = 0; i < 3; ++i) counts.add(-5);
  counts.add(1 << 30);
  const TagCounts read = TagCounts::from_bytes(counts.to_bytes());
  EXPECT_EQ(read.messages, counts.messages);
  EXPECT_EQ(read.messages.at(-5), 3u);
  EXPECT_FALSE(read.has_others);
}

TEST(TagCounts, MoreTagsThanTheyHoldAreNoted) {
  TagCounts counts;
  for (std::size_t tag = 0; tag <= TagCounts::kMost; ++tag) counts.add(static_cast<int>(tag));
  EXPECT_EQ(counts.messages.size(), TagCounts::kMost);
  EXPECT_TRUE(TagCounts::from_bytes(counts.to_bytes()).has_others);
}

TEST(TagCounts, OtherBytesCountNothing) {
  TagCounts counts;
  counts.add(1);
  const std::string bytes = counts.to_bytes();
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_TRUE(TagCounts::from_bytes(bytes.substr(0, length)).messages.empty()) << length;
  EXPECT_TRUE(TagCounts::from_bytes(bytes + "x").messages.empty());
  EXPECT_TRUE(TagCounts::from_bytes(std::string(100, '\xff')).messages.empty());
}

// Purpose: a store whose check() returns when the test says so, and whose first set() fails.
class SlowStore final : public c10d::HashStore {
 public:
  using HashStore::set;

  bool check(const std::vector<std::string>& keys) override {
    if (!asked_.try_wait()) asked_.count_down();
    answers_.wait();
    return HashStore::check(keys);
  }
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    if (fails_.exchange(false)) throw std::runtime_error("no route");
    HashStore::set(key, value);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    ++additions_;
    return HashStore::add(key, value);
  }
  void wait_until_asked() { asked_.wait(); }
  void answer() { answers_.count_down(); }
  int additions() const { return additions_; }

 private:
  std::latch asked_{1}, answers_{1};
  std::atomic<bool> fails_{true};
  std::atomic<int> additions_{0};
};

TEST(SendNotices, AreNotOverWhileTheStoreIsAsked) {
  const auto store = c10::make_intrusive<SlowStore>();
  SendNotices notices(store, 1);
  EXPECT_TRUE(notices.over_within(Duration::zero())) << "there is no thread";
  notices.note(0, 7);
  store->wait_until_asked();
  notices.end();
  EXPECT_FALSE(notices.over_within(Duration::zero()));
  store->answer();
  EXPECT_TRUE(notices.over_within(std::chrono::seconds(30)));
}

TEST(HeardSends, AskAgainAfterAFailureOfTheStoreAndWriteNothingElse) {
  const auto store = c10::make_intrusive<SlowStore>();
  store->answer();
  HeardSends heard(store, 0);
  EXPECT_THROW(heard.sent(1), std::runtime_error);
  EXPECT_TRUE(heard.sent(1).messages.empty());
  EXPECT_TRUE(store->check({"rueda-sends-asked/1"}));
  heard.look();
  EXPECT_EQ(store->additions(), 0);
}

}  // namespace
}  // namespace rueda
