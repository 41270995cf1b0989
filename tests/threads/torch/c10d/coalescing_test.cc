// SPDX-License-Identifier: Apache-2.0
// Operations of a group that a thread coalesces, beside those of other threads.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/worlds/group_world.h"

namespace rueda {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr int kTimes = 100;

class Coalescing : public GroupWorld {};

c10::intrusive_ptr<c10d::Work> send_and_receive(ProcessGroup& group, Tensors& sent, Tensors& received,
                                                int tag) {
  const int other = 1 - group.getRank();
  group.startCoalescing();
  group.send(sent, other, tag);
  group.recv(received, other, tag);
  return group.endCoalescing();
}

void exchange(ProcessGroup& group, int tag) {
  for (int i = 0; i < kTimes; ++i) {
    Tensors sent{at::full({2}, 10.0 * i + group.getRank())}, received{at::zeros({2})};
    send_and_receive(group, sent, received, tag)->wait();
    ASSERT_EQ(received[0][1].item<double>(), 10.0 * i + 1 - group.getRank());
  }
}

void add(ProcessGroup& group) {
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  for (int i = 0; i < kTimes; ++i) {
    Tensors tensors{at::full({300}, 1.0 * i)};
    group.allreduce(tensors, options);
    ASSERT_EQ(tensors[0][299].item<double>(), 2.0 * i) << "complete when the call returns";
  }
}

TEST_F(Coalescing, EachThreadHasItsOwn) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice&) {
    std::vector<std::thread> threads;
    threads.emplace_back([&] { exchange(group, 1); });
    threads.emplace_back([&] { exchange(group, 2); });
    threads.emplace_back([&] { add(group); });
    for (std::thread& each : threads) each.join();
  });
}

// As after an exception between begin and end: later operations are as ever, and a new begin begins anew.
TEST_F(Coalescing, MayBeLeftWithoutAnEnd) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice&) {
    Tensors lists{at::ones({2}), at::ones({2})};
    group.startCoalescing();
    Tensors first{at::ones({2})};
    const auto left = group.allreduce(first, {});
    EXPECT_THROW(group.send(lists, 1 - group.getRank(), 0), c10::ValueError);
    left->wait();
    EXPECT_EQ(first[0][0].item<double>(), 2.0);
    exchange(group, 0);
    add(group);
  });
}

TEST_F(Coalescing, AnEndWithoutABeginIsComplete) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice&) {
    EXPECT_TRUE(group.endCoalescing()->wait());
    EXPECT_FALSE(group.supportsCoalescing()) << "so torch keeps no state of batches";
  });
}

}  // namespace
}  // namespace rueda
