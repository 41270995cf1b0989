// SPDX-License-Identifier: Apache-2.0
// What a Work and its Future promise of tensors on devices: streams wait, the host does not.
#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/worlds/group_world.h"

namespace rueda {
namespace {

using Tensors = std::vector<at::Tensor>;

// Purpose: something that a rank's device does for as long as the test wants. What its stream gets later
// waits.
class LongKernel {
 public:
  LongKernel(FakeDevice& device, const c10::Stream& stream) { device.wait(stream.native_handle(), end_); }
  ~LongKernel() { end(); }
  LongKernel(const LongKernel&) = delete;
  LongKernel& operator=(const LongKernel&) = delete;
  void end() { end_->passed = true; }

 private:
  const std::shared_ptr<FakeDevice::Point> end_ = std::make_shared<FakeDevice::Point>();
};

void wait_until_complete(c10d::Work& work) {
  while (!work.isCompleted()) std::this_thread::yield();
}

class GroupWorkOnDevices : public GroupWorld {};

TEST_F(GroupWorkOnDevices, TheCurrentStreamWaitsAndTheHostDoesNot) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors tensors{at::full({100}, group.getRank() + 1.0, device.name())};
    const long waits = device.host_waits();
    const auto work = group.allreduce(tensors, {});
    at::Tensor twice;
    {
      const c10::StreamGuard other(device.stream(1));
      work->wait();
      twice = tensors[0] * 2;
    }
    EXPECT_EQ(device.host_waits(), waits);
    EXPECT_EQ(twice.cpu()[99].item<double>(), 6.0);
  });
}

TEST_F(GroupWorkOnDevices, WaitReturnsBeforeTheDeviceHasDoneIt) {
  std::barrier meeting(2);
  run_group(2, [&](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors tensors{at::ones({8}, device.name())};
    LongKernel kernel(fake(group.getRank()), device.stream(0));
    const auto work = group.allreduce(tensors, {});
    EXPECT_TRUE(work->wait());
    EXPECT_TRUE(work->isSuccess());
    meeting.arrive_and_wait();
    EXPECT_FALSE(work->isCompleted());
    meeting.arrive_and_wait();
    kernel.end();
    wait_until_complete(*work);
    EXPECT_EQ(tensors[0].cpu()[7].item<float>(), 2.0F);
  });
}

TEST_F(GroupWorkOnDevices, ASynchronousCallOrdersTheStreamToo) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors tensors{at::full({10}, group.getRank() + 1.0, device.name())};
    const long waits = device.host_waits();
    c10d::AllreduceOptions options;
    options.asyncOp = false;
    group.allreduce(tensors, options);
    const at::Tensor twice = tensors[0] * 2;
    EXPECT_EQ(device.host_waits(), waits);
    EXPECT_EQ(twice.cpu()[9].item<double>(), 6.0);
  });
}

TEST_F(GroupWorkOnDevices, AFutureHasTheDeviceAndItsCallbackIsBehindTheResult) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors tensors{at::full({10}, group.getRank() + 1.0, device.name())};
    const long waits = device.host_waits();
    const auto future = group.allreduce(tensors, {})->getFuture();
    EXPECT_EQ(future->devices(), std::vector<at::Device>{device.name()});
    const auto half = future->then(
        [](c10::ivalue::Future& reduced) { return c10::IValue(reduced.value().toTensorVector()[0] / 2); },
        c10::TensorType::get());
    half->waitAndThrow();
    const at::Tensor result = half->value().toTensor() + 1;
    EXPECT_EQ(device.host_waits(), waits);
    EXPECT_EQ(result.cpu()[9].item<double>(), 2.5);
  });
}

// The Future of a Work that is complete already is completed by its caller.
TEST_F(GroupWorkOnDevices, AFutureAfterTheWait) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors tensors{at::full({10}, group.getRank() + 1.0, device.name())};
    const auto work = group.allreduce(tensors, {});
    work->wait();
    const c10::StreamGuard other(device.stream(2));
    const auto future = work->getFuture();
    future->waitAndThrow();
    const at::Tensor twice = future->value().toTensorVector()[0] * 2;
    EXPECT_EQ(twice.cpu()[9].item<double>(), 6.0);
    EXPECT_EQ(work->getFutureResult()->value().toInt(), static_cast<int>(c10d::WorkResult::SUCCESS));
  });
}

// What is left to do after the operation is done on a stream of its own.
TEST_F(GroupWorkOnDevices, TensorsAreKeptForTheStreamThatUnpacks) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice& device) {
    constexpr c10::StreamId kFirstOfPool = 4, kLastOfPool = 7;
    Tensors inputs{at::full({3}, group.getRank() + 1.0, device.name())};
    std::vector<Tensors> outputs{{at::zeros({3}, device.name()), at::zeros({3}, device.name())}};
    const auto work = group.allgather(outputs, inputs, {});
    work->wait();
    int kept = 0;
    for (c10::StreamId id = kFirstOfPool; id <= kLastOfPool; ++id)
      kept += device.is_kept_for(outputs[0][1], id) ? 1 : 0;
    EXPECT_EQ(kept, 1);
    EXPECT_EQ(outputs[0][1].cpu()[2].item<float>(), 2.0F);
  });
}

TEST_F(GroupWorkOnDevices, NobodyNeedKeepTheTensors) {
  run_group(2, [this](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors tensors{at::ones({64}, device.name())}, others{at::ones({4}, device.name())};
    const LongKernel kernel(fake(group.getRank()), device.stream(0));
    const c10::weak_intrusive_ptr<c10::StorageImpl> memory(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(tensors[0].storage().unsafeGetStorageImpl()));
    group.allreduce(tensors, {})->wait();
    tensors.clear();
    group.allreduce(others, {})->wait();  // lets go of what earlier operations have kept
    EXPECT_FALSE(memory.expired()) << "the device has not come to it yet";
  });
}

TEST_F(GroupWorkOnDevices, CoalescedOperationsOrderTheStreamTogether) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors first{at::ones({5}, device.name())}, second{at::ones({5}, device.name()) * 2};
    std::vector<Tensors> outputs{{at::zeros({5}, device.name()), at::zeros({5}, device.name())}};
    Tensors host{at::ones({2})};
    group.startCoalescing();
    group.allreduce(first, {});
    group.allgather(outputs, second, {});
    group.allreduce(host, {});
    group.endCoalescing()->wait();
    const at::Tensor sum = first[0] + outputs[0][0] + outputs[0][1];
    EXPECT_EQ(sum.cpu()[4].item<float>(), 6.0F);
    EXPECT_EQ(host[0][1].item<float>(), 2.0F);
  });
}

TEST_F(GroupWorkOnDevices, ABarrierWaitsForTheDeviceThatIsNamedOrWasUsed) {
  run_group(2, [this](ProcessGroup& group, const FakeTorchDevice& device) {
    const auto passes_after = [&](const c10d::BarrierOptions& options) {
      std::atomic<bool> done{false};
      fake(group.getRank()).give(device.stream(0).native_handle(), [&] { done = true; });
      group.barrier(options)->wait();
      const bool waited = done;
      fake(group.getRank()).finish();
      return waited;
    };
    EXPECT_FALSE(passes_after({})) << "nothing was on a device yet: a barrier of the host";
    c10d::BarrierOptions named;
    named.device_ids = {device.name().index()};
    EXPECT_TRUE(passes_after(named));
    Tensors tensors{at::ones({5}, device.name())};
    group.allreduce(tensors, {})->wait();
    EXPECT_TRUE(passes_after({}));
  });
}

using Exchange =
    std::function<c10::intrusive_ptr<c10d::Work>(ProcessGroup&, Tensors& output, Tensors& input)>;

const std::vector<Exchange>& exchanges() {
  static const std::vector<Exchange> all{[](ProcessGroup& group, Tensors& output, Tensors& input) {
                                           return group._allgather_base(output[0], input[0], {});
                                         },
                                         [](ProcessGroup& group, Tensors& output, Tensors& input) {
                                           return group._reduce_scatter_base(input[0], output[0], {});
                                         },
                                         [](ProcessGroup& group, Tensors& output, Tensors& input) {
                                           std::vector<std::int64_t> rows;
                                           at::Tensor received = at::zeros_like(output[0]);
                                           input.push_back(received);
                                           return group.alltoall_base(received, output[0], rows, rows, {});
                                         }};
  return all;
}

// Rank 1 comes late, so the operation is launched when the stream of rank 0 has got more to do.
void begins_before_later_work(ProcessGroup& group, const FakeTorchDevice& device, FakeDevice& fake,
                              std::barrier<>& meeting) {
  constexpr std::chrono::seconds kLongest{20};
  for (const Exchange& exchange : exchanges()) {
    Tensors output{at::ones({4}, device.name())}, input{at::ones({2}, device.name())};
    if (group.getRank() == 1) meeting.arrive_and_wait();
    const auto work = exchange(group, output, input);
    if (group.getRank() == 0) {
      const LongKernel kernel(fake, device.stream(0));
      meeting.arrive_and_wait();
      const auto end = std::chrono::steady_clock::now() + kLongest;
      while (!work->isCompleted() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      EXPECT_TRUE(work->isCompleted());
    }
    work->wait();
  }
}

TEST_F(GroupWorkOnDevices, AnOperationIntoGivenMemoryDoesNotWaitForLaterWork) {
  std::barrier<> meeting(2);
  run_group(2, [&](ProcessGroup& group, const FakeTorchDevice& device) {
    begins_before_later_work(group, device, fake(group.getRank()), meeting);
  });
}

TEST_F(GroupWorkOnDevices, NorDoesOneByWayOfTheHost) {
  std::barrier<> meeting(2);
  run_group_by_the_host(2, [&](ProcessGroup& group, const FakeTorchDevice& device) {
    begins_before_later_work(group, device, fake(group.getRank()), meeting);
  });
}

// The device is through before the loss, but nobody has looked: that cannot be told from what a loss has
// ended.
TEST_F(GroupWorkOnDevices, WhatALostGroupLeavesOnADeviceIsNoSuccess) {
  std::barrier<> meeting(2);
  run_group(2, [&](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors tensors{at::ones({8}, device.name())};
    LongKernel kernel(fake(group.getRank()), device.stream(0));
    const auto sum = group.allreduce(tensors, {});
    sum->wait();
    EXPECT_TRUE(sum->isSuccess());
    std::atomic<bool> done{false};
    fake(group.getRank()).give(device.stream(0).native_handle(), [&] { done = true; });
    kernel.end();
    while (!done) fake(group.getRank()).finish();
    meeting.arrive_and_wait();
    if (group.getRank() == 0) group.abort();
    while (group.getError() == c10d::ErrorType::SUCCESS) std::this_thread::yield();
    EXPECT_FALSE(sum->isSuccess());
    EXPECT_TRUE(sum->exception());
    EXPECT_THAT(words_of_c10d([&] { sum->wait(); }), testing::HasSubstr("aborted"));
  });
}

TEST_F(GroupWorkOnDevices, ASparseSumIsKeptForTheStreamThatHasWaited) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice& device) {
    const at::Tensor indices = at::arange(3, at::kLong).unsqueeze(0).to(device.name());
    Tensors tensors{at::sparse_coo_tensor(indices, at::ones({3, 2}, device.name()), {8, 2},
                                          at::TensorOptions(device.name()).dtype(at::kFloat))};
    const auto work = group.allreduce(tensors, {});
    const c10::StreamGuard other(device.stream(2));
    work->wait();
    EXPECT_TRUE(device.is_kept_for(tensors[0]._values(), 2));
    EXPECT_TRUE(device.is_kept_for(tensors[0]._indices(), 2));
  });
}

TEST_F(GroupWorkOnDevices, CoalescedFormsTakeATensorAtLeast) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice&) {
    Tensors outputs, inputs;
    EXPECT_THAT(words_of_c10d([&] { group.allgather_into_tensor_coalesced(outputs, inputs, {}); }),
                testing::HasSubstr("at least one tensor"));
  });
}

// A message may begin long after its call, when two ranks have met. It does not wait for what the stream got
// meanwhile, which may need the message.
TEST_F(GroupWorkOnDevices, AMessageIsReadyAsOfItsCall) {
  std::barrier meeting(2);
  run_group(2, [&](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors tensors{at::full({6}, group.getRank() + 1.0, device.name())};
    if (group.getRank() == 0) {
      const auto work = group.send(tensors, 1, 0);
      LongKernel kernel(fake(0), device.stream(0));
      meeting.arrive_and_wait();  // only now the other rank takes part
      while (!work->isCompleted()) std::this_thread::yield();
      meeting.arrive_and_wait();
      work->wait();
    } else {
      meeting.arrive_and_wait();
      group.recv(tensors, 0, 0)->wait();
      EXPECT_EQ((tensors[0] * 2).cpu()[5].item<double>(), 2.0);
      meeting.arrive_and_wait();
    }
  });
}

}  // namespace
}  // namespace rueda
