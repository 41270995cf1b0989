// SPDX-License-Identifier: Apache-2.0
// Receives from any source, where each rank is a host of its own.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/store_of_far_ranks.h"
#include "tests/support/worlds/group_world.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr int kRanks = 3, kMessages = 5, kTag = 9;

class AnySourceOverHosts : public GroupWorld {
 protected:
  AnySourceOverHosts() { stand_on_hosts(1, c10::make_intrusive<StoreOfFarRanks>()); }
};

// Every other rank sends some messages, each of them with its own rank and number.
TEST_F(AnySourceOverHosts, EveryMessageComesOnceAndInTheOrderOfItsRank) {
  run_group(kRanks, [](ProcessGroup& group, const FakeTorchDevice&) {
    if (group.getRank() > 0) {
      std::vector<c10::intrusive_ptr<c10d::Work>> works;
      for (int number = 0; number < kMessages; ++number) {
        Tensors tensors{at::full({2}, 10.0 * group.getRank() + number)};
        works.push_back(group.send(tensors, 0, kTag));
      }
      for (const auto& work : works) work->wait();
      return;
    }
    std::map<int, int> next;
    for (int i = 0; i < (kRanks - 1) * kMessages; ++i) {
      Tensors tensors{at::zeros({2})};
      const auto work = group.recvAnysource(tensors, kTag);
      work->wait();
      const int from = work->sourceRank();
      EXPECT_EQ(tensors[0][1].item<double>(), 10.0 * from + next[from]++);
    }
    EXPECT_EQ(next, (std::map<int, int>{{1, kMessages}, {2, kMessages}}));
  });
}

TEST_F(AnySourceOverHosts, ATensorOfADeviceComesSo) {
  run_group(3, [](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors tensors{at::full({4}, group.getRank() + 1.0, device.name())};
    if (group.getRank() == 2) group.send(tensors, 0, 0)->wait();
    if (group.getRank() != 0) return;
    const auto work = group.recvAnysource(tensors, 0);
    work->wait();
    EXPECT_EQ(work->sourceRank(), 2);
    EXPECT_EQ((tensors[0] * 2).cpu()[3].item<double>(), 6.0);
  });
}

// Purpose: the program's client of a store, which nobody else may use, and the clients made of it.
class ProgramsClient final : public c10d::HashStore {
 public:
  using HashStore::get;
  using HashStore::set;

  c10::intrusive_ptr<Store> clone() override {
    ++clones_;
    return others_;
  }
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    ++uses_;
    HashStore::set(key, value);
  }
  bool check(const std::vector<std::string>& keys) override {
    ++uses_;
    return HashStore::check(keys);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    ++uses_;
    return HashStore::add(key, value);
  }
  int clones() const { return clones_; }
  int uses() const { return uses_; }

 private:
  const c10::intrusive_ptr<Store> others_ = c10::make_intrusive<StoreOfFarRanks>();
  std::atomic<int> clones_{0}, uses_{0};
};

// While the program waits for a key, its client answers nobody.
TEST_F(AnySourceOverHosts, MessagesHaveAClientOfTheStoreOfTheirOwn) {
  const auto client = c10::make_intrusive<ProgramsClient>();
  stand_on_hosts(1, client);
  run_group(kRanks, [](ProcessGroup& group, const FakeTorchDevice&) {
    for (int tag = 0; tag < 2; ++tag) {
      Tensors tensors{at::zeros({2})};
      if (group.getRank() == 1) group.send(tensors, 0, tag)->wait();
      if (group.getRank() == 0) group.recvAnysource(tensors, tag)->wait();
    }
  });
  EXPECT_EQ(client->clones(), 2) << "one on each rank that has messages";
  EXPECT_EQ(client->uses(), 0);
}

// Purpose: a store that calls a function once, when somebody asks for the counters of rank 2.
class StoreWithAFunction final : public c10d::HashStore {
 public:
  explicit StoreWithAFunction(std::function<void()> act) : act_(std::move(act)) {}
  bool check(const std::vector<std::string>& keys) override {
    if (keys.front().ends_with("rueda-sends/2") && armed.exchange(false)) act_();
    return HashStore::check(keys);
  }
  std::atomic<bool> armed{false};

 private:
  const std::function<void()> act_;
};

// Both messages come after the search has asked rank 1 for the first receive, and before it asks for the
// other.
TEST_F(AnySourceOverHosts, ReceivesThatWaitTogetherTakeMessagesInOrder) {
  std::barrier<> asked(2), sent(2);
  const auto store = c10::make_intrusive<StoreWithAFunction>([&] {
    asked.arrive_and_wait();
    sent.arrive_and_wait();
  });
  stand_on_hosts(kRanks, store);
  run_group(kRanks, [&](ProcessGroup& group, const FakeTorchDevice&) {
    Tensors first{at::full({1}, 1.0)}, second{at::full({1}, 2.0)};
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    if (group.getRank() == 1) {
      asked.arrive_and_wait();
      works = {group.send(first, 0, kTag), group.send(second, 0, kTag)};
      sent.arrive_and_wait();
    } else if (group.getRank() == 0) {
      first[0].zero_();
      second[0].zero_();
      works = {group.recvAnysource(first, kTag), group.recvAnysource(second, kTag)};
      store->armed = true;
    }
    for (const auto& work : works) work->wait();
    EXPECT_EQ(first[0].item<double>(), 1.0);
    EXPECT_EQ(second[0].item<double>(), 2.0);
  });
}

TEST_F(AnySourceOverHosts, AnAbortEndsAReceiveAndNoneBeginsAfterTheEnd) {
  run_group(kRanks, [](ProcessGroup& group, const FakeTorchDevice&) {
    if (group.getRank() != 0) return;
    Tensors tensors{at::zeros({2})};
    const auto work = group.recvAnysource(tensors, kTag);
    group.abort();
    EXPECT_THAT(words_of_c10d([&] { work->wait(); }), HasSubstr("aborted"));
    EXPECT_THAT(words_of_c10d([&] { group.recvAnysource(tensors, kTag)->wait(); }), HasSubstr("aborted"));
    group.shutdown();
    EXPECT_THAT(words_of_c10d([&] { group.recvAnysource(tensors, kTag)->wait(); }), HasSubstr("shut down"));
  });
}

}  // namespace
}  // namespace rueda
