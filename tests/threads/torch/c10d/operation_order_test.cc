// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/operation_order.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <vector>

#include "core/base/error.h"
#include "frameworks/torch/c10d/operations/tensor_bytes.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr int kSlots = static_cast<int>(OperationOrder::kSlots);

constexpr Duration kLimit = 60s;

Submission broadcast_of(const at::Tensor& tensor) {
  Submission submission = moving(Operation::broadcast, tensor, tensor);
  submission.request.root = 0;
  return submission;
}

TEST(OperationOrder, OperationsMeetByTheirNumberBeyondTheLastSlot) {
  run_on_one_host(2, [](Runtime& runtime) {
    OperationOrder order("group.");
    EXPECT_EQ(order.last(), 0u);
    for (int number = 1; number <= 2 * kSlots + 3; ++number) {
      const at::Tensor value = at::full({3}, runtime.topology().rank == 0 ? number : -1);
      const OperationOrder::Begun begun = order.begin(runtime, one_of(broadcast_of(value)), kLimit);
      EXPECT_EQ(begun.number, static_cast<std::uint64_t>(number));
      begun.handles[0].wait();
      EXPECT_EQ(value[2].item<int>(), number);
    }
    EXPECT_EQ(order.last(), static_cast<std::uint64_t>(2 * kSlots + 3));
  });
}

TEST(OperationOrder, SeveralSubmissionsAreOneOperation) {
  run_on_one_host(2, [](Runtime& runtime) {
    OperationOrder order("group.");
    const std::vector<at::Tensor> values{at::full({2}, 1 + runtime.topology().rank),
                                         at::full({5}, 7 - runtime.topology().rank)};
    OperationOrder::Submissions submissions;
    for (const at::Tensor& each : values) submissions.push_back(broadcast_of(each));
    const OperationOrder::Begun begun = order.begin(runtime, std::move(submissions), kLimit);
    EXPECT_EQ(begun.number, 1u);
    ASSERT_EQ(begun.handles.size(), 2u);
    for (const Handle& each : begun.handles) each.wait();
    EXPECT_TRUE(at::equal(values[0], at::full({2}, 1)) && at::equal(values[1], at::full({5}, 7)));
  });
}

// Ranks whose n-th operations differ are told both sides, and nobody hangs.
TEST(OperationOrder, ADifferentOrderIsAMismatch) {
  run_on_one_host(2, [](Runtime& runtime) {
    OperationOrder order("group.");
    const at::Tensor value = at::zeros({runtime.topology().rank == 0 ? 2 : 3});
    const OperationOrder::Begun begun = order.begin(runtime, one_of(broadcast_of(value)), kLimit);
    EXPECT_THAT(words_of<Mismatch>([&] { begun.handles[0].wait(); }), HasSubstr("group.1"));
  });
}

TEST(OperationOrder, WaitsForTheSlotOfAnOperationInFlight) {
  std::barrier meeting(2);
  run_on_one_host(2, [&](Runtime& runtime) {
    OperationOrder order("group.");
    const bool first = runtime.topology().rank == 0;
    std::vector<OperationOrder::Begun> begun;
    const auto begin_all = [&] {
      for (int i = 0; i < kSlots; ++i)
        begun.push_back(order.begin(runtime, one_of(broadcast_of(at::zeros({1}))), kLimit));
    };
    if (first) {
      begin_all();
      EXPECT_FALSE(order.has_room());
      EXPECT_THAT(words_of<Stalled>([&] { order.begin(runtime, one_of(broadcast_of(at::zeros({1}))), 1ms); }),
                  HasSubstr("operation number 1 is not complete"));
      EXPECT_EQ(order.last(), OperationOrder::kSlots) << "one that has not begun has no number";
    }
    meeting.arrive_and_wait();
    if (!first) begin_all();
    for (const OperationOrder::Begun& each : begun) each.handles[0].wait();
    EXPECT_TRUE(order.has_room());
  });
}

}  // namespace
}  // namespace rueda
