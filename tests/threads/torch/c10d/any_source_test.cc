// SPDX-License-Identifier: Apache-2.0
// Receives from any source, where each rank is a host of its own.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "tests/support/store_of_far_ranks.h"
#include "tests/support/worlds/group_world.h"

namespace rueda {
namespace {

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

}  // namespace
}  // namespace rueda
