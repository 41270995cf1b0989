// SPDX-License-Identifier: Apache-2.0
// Allreduces of device tensors by NCCL inside hosts and by messages between them: ranks are threads, on hosts
// of two, their devices and NCCL fakes.
#include <gmock/gmock.h>

#include <limits>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/device_conformance.h"
#include "tests/support/training/device_ones.h"
#include "tests/support/worlds/nccl_world.h"

namespace rueda {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class NcclHierarchyTest : public NcclWorld {
 protected:
  void run_on_hosts(Rank ranks, const Body& body, Config config = {}) {
    config.nccl_hierarchy = true;
    run(
        ranks, body, config, [](Rank rank) { return std::to_string(rank); }, 2);
  }
};

TEST_F(NcclHierarchyTest, ReducesAsTheHostDoes) {
  run_on_hosts(4, check_device_allreduce);
  const std::vector<std::string> calls = nccl_.take_calls(0);
  EXPECT_THAT(calls, Contains("ncclCommInitRankConfig(0 of 2)"));
  EXPECT_THAT(calls, Contains(HasSubstr("ncclReduceScatter(")));
  EXPECT_THAT(calls, Contains(HasSubstr("ncclAllGather(")));
}

// 1.2 MB do not fit the least buffer, 1 MiB.
TEST_F(NcclHierarchyTest, GoesInRoundsThroughASmallBuffer) {
  Config config;
  config.fusion_threshold = 0;
  config.nccl_streams = 2;
  run_on_hosts(6, check_device_allreduce, config);
}

TEST_F(NcclHierarchyTest, IsNotTakenUnlessItIsWanted) {
  run(
      4,
      [](Runtime& runtime, FakeDevice& device) {
        DeviceOnes ones(device, 10);
        wait_on_device(runtime.submit(ones.sum("t")));
        EXPECT_EQ(ones.values()[9], 4.0f);
      },
      {}, [](Rank rank) { return std::to_string(rank); }, 2);
  EXPECT_THAT(nccl_.take_calls(0), Not(Contains(HasSubstr("ncclReduceScatter"))));
}

TEST_F(NcclHierarchyTest, HostsOfDifferentSizesGoByNcclAlone) {
  run_on_hosts(3, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    wait_on_device(runtime.submit(ones.sum("t")));
    EXPECT_EQ(ones.values()[9], 3.0f);
  });
  EXPECT_EQ(count(0, "ncclAllReduce(10 float32 sum)"), 1);
}

TEST_F(NcclHierarchyTest, RanksThatShareADeviceSomewhereMakeAllGoByTheHost) {
  Config config;
  config.nccl_hierarchy = true;
  run(
      4,
      [](Runtime& runtime, FakeDevice& device) {
        for (int i = 0; i < 2; ++i) {
          DeviceOnes ones(device, 10);
          wait_on_device(runtime.submit(ones.sum("t")));
          EXPECT_EQ(ones.values()[9], 4.0f);
        }
      },
      config, [](Rank rank) { return rank < 2 ? "shared" : std::to_string(rank); }, 2);
  EXPECT_EQ(count(3, "nccl"), 0);
}

TEST_F(NcclHierarchyTest, AJoinedRankTakesPart) {
  run_on_hosts(4, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes first(device, 100);  // by which it knows its device
    wait_on_device(runtime.submit(first.sum("first")));
    if (runtime.topology().rank != 1) {
      DeviceOnes ones(device, 100);
      wait_on_device(runtime.submit(ones.sum("t")));
      EXPECT_EQ(ones.values()[99], 3.0f);
    }
    join(runtime);
  });
  EXPECT_EQ(count(1, "ncclReduceScatter"), 4) << "of the second rank of each host";
}

// Between hosts a rank has no memory: all hear of it, nobody hangs in NCCL, tensors are as they were, and the
// next operation works.
TEST_F(NcclHierarchyTest, MissingMemoryFailsTheOperationEverywhereAndTheNextWorks) {
  run_on_hosts(4, [&](Runtime& runtime, FakeDevice& device) {
    const Rank rank = runtime.topology().rank;
    DeviceOnes ones(device, 1000);
    wait_on_device(runtime.submit(ones.sum("before")));
    if (rank == 2) network_->take_memory_from(2, 1);
    barrier_async(runtime).wait();
    Submission narrowed = ones.sum("t");  // for which the link needs memory
    narrowed.request.compression = Compression::bf16;
    const Status status = runtime.submit(std::move(narrowed)).wait_status();
    EXPECT_EQ(status.code, StatusCode::backend_error);
    EXPECT_THAT(status.message, HasSubstr("rank 2"));
    barrier_async(runtime).wait();
    if (rank == 2) network_->take_memory_from(2, std::numeric_limits<std::size_t>::max());
    barrier_async(runtime).wait();
    DeviceOnes fresh(device, 1000);
    wait_on_device(runtime.submit(fresh.sum("after")));
    EXPECT_EQ(fresh.values()[999], 4.0f);
  });
}

TEST_F(NcclHierarchyTest, ALostRankEndsTheJobByName) {
  run_on_hosts(4, [&](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    wait_on_device(runtime.submit(ones.sum("t")));
    static_cast<void>(barrier_async(runtime).wait_status());  // the lost one may hear of it here
    const Rank rank = runtime.topology().rank;
    if (rank == 0) network_->lose(3);
    const Status status = runtime.submit(ones.sum("t")).wait_status();
    EXPECT_EQ(status.code, StatusCode::peer_lost);
    if (rank == 0) EXPECT_THAT(status.message, HasSubstr("rank 3"));  // rank 3 lives on, and tells its own
  });
  EXPECT_EQ(count(0, "ncclCommAbort"), 2) << "of the first rank of each host";
}

}  // namespace
}  // namespace rueda
