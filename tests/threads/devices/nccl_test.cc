// SPDX-License-Identifier: Apache-2.0
// Tensors on devices by NCCL: the ranks are threads, their devices and NCCL fakes.
#include <gmock/gmock.h>

#include <barrier>
#include <cstdlib>
#include <string_view>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/device_conformance.h"
#include "tests/support/conformance/values.h"
#include "tests/support/training/device_ones.h"
#include "tests/support/worlds/nccl_world.h"

namespace rueda {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class NcclTest : public NcclWorld {};

TEST_F(NcclTest, ReducesAsTheHostDoes) {
  run(3, check_device_allreduce);
  EXPECT_GT(count(1, "ncclAllReduce"), 10);
}

TEST_F(NcclTest, ReducesOnSeveralStreams) {
  Config config;
  config.nccl_streams = 3;
  run(2, check_device_allreduce, config);
  EXPECT_EQ(count(0, "ncclCommInitRankConfig"), 3);
}

TEST_F(NcclTest, ReducesWithoutABuffer) {
  Config config;
  config.fusion_threshold = 0;
  run(2, check_device_allreduce, config);
}

TEST_F(NcclTest, ExchangesAsTheHostDoes) {
  run(3, check_device_exchange);
  const std::vector<std::string> calls = nccl_.take_calls(2);
  for (const char* each : {"ncclBroadcast", "ncclSend", "ncclRecv", "ncclReduceScatter", "ncclReduce("})
    EXPECT_THAT(calls, Contains(HasSubstr(each)));
}

TEST_F(NcclTest, RanksOfOneDeviceGoByTheHost) {
  run(2, check_device_exchange, {}, [](Rank) { return "shared"; });
  EXPECT_EQ(count(0, "nccl"), 0);
}

// NCCL's own setting, which all ranks must have.
TEST_F(NcclTest, RanksOfOneDeviceGoByNcclWhereItIsTold) {
  const auto sum = [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    wait_on_device(runtime.submit(ones.sum("t")));
    EXPECT_EQ(ones.values()[9], 2.0f);
  };
  const auto shared = [](Rank) { return "shared"; };
  for (const char* setting : {"1", "0", ""}) {
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", setting, 1);
    testing::internal::CaptureStderr();
    run(2, sum, {}, shared);
    const std::string said = testing::internal::GetCapturedStderr();
    ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
    devices_.clear();
    const bool by_nccl = std::string_view(setting) == "1";
    EXPECT_EQ(count(0, "ncclAllReduce(10 float32 sum)"), by_nccl ? 1 : 0) << setting;
    EXPECT_EQ(
        said.find("tensors on devices of ranks 0-1 go by way of the host, not by NCCL: ranks 0 and 1 use "
                  "one device, which NCCL does not allow; give each its own") == std::string::npos,
        by_nccl)
        << said;
  }
}

TEST_F(NcclTest, ARankWithoutMemoryOrNcclMakesAllGoByTheHost) {
  run(2, [&](Runtime& runtime, FakeDevice& device) {
    if (runtime.topology().rank == 1) nccl_.fail("ncclGetUniqueId", 0);
    barrier_async(runtime).wait();
    DeviceOnes ones(device, 10);
    runtime.submit(ones.sum("t")).wait();
    device.finish();
    EXPECT_EQ(ones.values()[9], 2.0f);
  });
  EXPECT_EQ(count(0, "ncclAllReduce"), 0);
}

// NCCL sends as it is what others could read on the way.
TEST_F(NcclTest, EncryptedDataGoesByTheHostBetweenHosts) {
  Config encrypted;
  encrypted.encrypt = true;
  for (const Rank ranks_per_host : {1, 2}) {
    testing::internal::CaptureStderr();
    run(
        2,
        [](Runtime& runtime, FakeDevice& device) {
          DeviceOnes ones(device, 10);
          wait_on_device(runtime.submit(ones.sum("t")));
          EXPECT_EQ(ones.values()[9], 2.0f);
        },
        encrypted, [](Rank rank) { return std::to_string(rank); }, ranks_per_host);
    const std::string said = testing::internal::GetCapturedStderr();
    devices_.clear();
    EXPECT_EQ(count(0, "ncclAllReduce"), ranks_per_host == 2 ? 1 : 0);
    EXPECT_EQ(said.find("NCCL does not encrypt") == std::string::npos, ranks_per_host == 2) << said;
  }
}

TEST_F(NcclTest, NarrowsWhatGoesBetweenHosts) {
  run(
      2,
      [&](Runtime& runtime, FakeDevice& device) {
        DeviceOnes ones(device, 100);
        Submission submission = ones.sum("t");
        submission.request.compression = Compression::bf16;
        wait_on_device(runtime.submit(std::move(submission)));
        EXPECT_EQ(ones.values()[99], 2.0f);
      },
      {}, [](Rank rank) { return std::to_string(rank); }, 1);
  EXPECT_EQ(count(0, "bfloat16 sum"), 1);
}

// 0.3 is another number in bfloat16, by which this would be 217.
TEST_F(NcclTest, FactorsOfNarrowTypesAreNotRounded) {
  run(3, [](Runtime& runtime, FakeDevice& device) {
    for (const std::size_t tensors : {1, 2}) {
      std::vector<Submission> group;
      std::vector<std::shared_ptr<std::byte>> memory;
      for (std::size_t i = 0; i < tensors; ++i) {
        memory.push_back(device.memory(2));
        set_value(DataType::bfloat16, FakeDevice::real(memory.back().get()), 0, 240.0);
        Submission& submission = group.emplace_back();
        submission.request.name = std::to_string(tensors) + std::to_string(i);
        submission.request.dtype = DataType::bfloat16;
        submission.request.prescale_factor = 0.3;
        submission.request.shape = {1};
        submission.request.device = DeviceKind::cuda;
        submission.output = {memory.back().get(), DataType::bfloat16, {1}, {}};
        submission.input = submission.output;
      }
      for (const Handle& handle : runtime.submit_group(std::move(group))) wait_on_device(handle);
      for (const auto& each : memory)
        EXPECT_EQ(value_at(DataType::bfloat16, FakeDevice::real(each.get()), 0), 216.0);
    }
  });
}

TEST_F(NcclTest, AJoinedRankTakesPart) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 100);  // by which it knows its device
    wait_on_device(runtime.submit(ones.sum("first")));
    sum_beside_a_joined_rank(runtime, device);
  });
  EXPECT_EQ(count(1, "ncclAllReduce"), 2);
}

// An output that cannot be had on one rank: nobody gives its device anything, and the next operation works.
TEST_F(NcclTest, AMissingOutputFailsTheOperationEverywhere) {
  run(3, missing_output_fails_everywhere);
  const std::vector<std::string> calls = nccl_.take_calls(0);
  EXPECT_THAT(calls, Not(Contains(HasSubstr("ncclAllGather"))));
  EXPECT_THAT(calls, Not(Contains(HasSubstr("ncclSend"))));
  EXPECT_THAT(calls, Not(Contains(HasSubstr("ncclReduce"))));
}

class NcclFailureTest : public NcclTest, public testing::WithParamInterface<std::string> {};

// The job ends on all ranks with the words of NCCL, and what runs on devices is aborted.
TEST_P(NcclFailureTest, EndsTheJobEverywhereAndNamesTheRank) {
  const std::string call = GetParam();
  try {
    run(3, [&](Runtime& runtime, FakeDevice& device) {
      DeviceOnes ones(device, 10);
      if (call != "ncclCommInitRankConfig") {  // all are connected
        wait_on_device(runtime.submit(ones.sum("first")));
      }
      barrier_async(runtime).wait();
      if (runtime.topology().rank == 1) nccl_.fail(call, 1);
      Submission submission = ones.sum("t");
      submission.request.prescale_factor = 0.5;
      Status status = runtime.submit(std::move(submission)).wait_status();
      // What fails behind the Handle ends the job all the same.
      for (int i = 0; status.ok() && i < 1000; ++i) status = barrier_async(runtime).wait_status();
      EXPECT_EQ(status.code, StatusCode::backend_error);
      EXPECT_THAT(status.message, HasSubstr("rank 1 failed"));
      EXPECT_THAT(status.message, HasSubstr("system error"));
    });
  } catch (const Error&) {}
  EXPECT_EQ(count(1, "ncclCommAbort"), 1);
  // It may not have begun to connect by then.
  const std::vector<std::string> calls = nccl_.take_calls(0);
  const bool connected =
      std::ranges::any_of(calls, [](const auto& each) { return each.starts_with("ncclCommInit"); });
  EXPECT_EQ(std::ranges::count(calls, "ncclCommAbort()"), connected ? 1 : 0);
}
INSTANTIATE_TEST_SUITE_P(Every, NcclFailureTest,
                         testing::Values("ncclCommInitRankConfig", "ncclRedOpCreatePreMulSum",
                                         "ncclAllReduce", "ncclGroupEnd", "ncclRedOpDestroy", "async"),
                         [](const auto& info) { return info.param; });

// A device that waits for a rank that is gone is set free.
TEST_F(NcclTest, ALostRankAbortsWhatRunsOnDevices) {
  nccl_.hang();
  MemoryNetwork network(2);
  std::vector<std::shared_ptr<FakeDevices>> devices;
  for (Rank rank = 0; rank < 2; ++rank)
    devices.push_back(std::make_shared<FakeDevices>(static_cast<unsigned>(rank), std::to_string(rank)));
  std::barrier both_wait_there(2);  // not a collective: a rank could hear of the loss before its end
  run_ranks_of(
      2,
      [&](Runtime& runtime) {
        const Rank rank = runtime.topology().rank;
        DeviceOnes ones(devices[rank]->device(), 10);
        const Handle handle = runtime.submit(ones.sum("t"));
        handle.wait();  // the device has been given it
        EXPECT_FALSE(handle.fence()->passed());
        both_wait_there.arrive_and_wait();
        if (rank == 0) network.lose(1);
        const Status status = barrier_async(runtime).wait_status();
        EXPECT_EQ(status.code, StatusCode::peer_lost);
        while (!handle.fence()->passed()) std::this_thread::yield();
      },
      [&](Rank rank) {
        RuntimeComponents components = memory_components(network, rank, 2, {});
        add_nccl(components, add_cuda(components, devices[rank]),
                 [this]() -> const NcclLibrary& { return nccl_.library(); });
        return components;
      });
  EXPECT_EQ(count(0, "ncclCommAbort"), 1);
}

// A regular end waits for the device, finalizes and destroys.
TEST_F(NcclTest, ARegularEndDestroysItsCommunicators) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    runtime.submit(ones.sum("t")).wait();
  });
  const std::vector<std::string> calls = nccl_.take_calls(0);
  EXPECT_THAT(calls, Contains("ncclCommFinalize()"));
  EXPECT_THAT(calls, Contains("ncclCommDestroy()"));
  EXPECT_THAT(calls, Not(Contains("ncclCommAbort()")));
}

}  // namespace
}  // namespace rueda
