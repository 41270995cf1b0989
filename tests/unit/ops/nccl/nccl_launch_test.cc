// SPDX-License-Identifier: Apache-2.0
// Which calls of NCCL's an operation becomes, one by one.
#include "ops/nccl/nccl_launch.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/base/error.h"
#include "ops/nccl/nccl_lane.h"
#include "tests/fakes/cuda/fake_devices.h"
#include "tests/fakes/nccl/fake_nccl.h"

namespace rueda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NcclLaunchTest : public testing::Test {
 protected:
  NcclEnd own_end(Rank size = 3, Rank index = 1) {
    index_ = index;
    return {nccl_.library().functions, nccl_.alone_of(size, index), nullptr, size, index};
  }
  static Plan reducing(DataType dtype, ReduceOp op, double prescale = 1.0, double postscale = 1.0) {
    Plan plan;
    plan.dtype = dtype;
    plan.reduce_op = op;
    plan.prescale_factor = prescale;
    plan.postscale_factor = postscale;
    return plan;
  }
  std::vector<std::string> calls() { return nccl_.take_calls(index_); }
  // All calls of an allreduce of two tensors.
  std::vector<std::string> allreduce(const Plan& plan) {
    const NcclEnd by = own_end();
    const NcclReduction reduction = reduction_of(by, plan, plan.dtype);
    launch_allreduce(
        by, reduction,
        std::vector<NcclRun>{{memory_, memory_, 5}, {memory_, memory_, 0}, {memory_, memory_, 7}});
    release(by, reduction);
    return calls();
  }

  FakeNccl nccl_;
  Rank index_ = 0;
  std::byte memory_[64];
};

TEST_F(NcclLaunchTest, AllreduceIsACallForEachTensorThatHasElements) {
  EXPECT_THAT(allreduce(reducing(DataType::float32, ReduceOp::sum)),
              ElementsAre("ncclAllReduce(5 float32 sum)", "ncclAllReduce(7 float32 sum)"));
  EXPECT_THAT(allreduce(reducing(DataType::int64, ReduceOp::max)),
              ElementsAre("ncclAllReduce(5 int64 max)", "ncclAllReduce(7 int64 max)"));
  EXPECT_THAT(allreduce(reducing(DataType::float32, ReduceOp::average)),
              ElementsAre("ncclAllReduce(5 float32 avg)", "ncclAllReduce(7 float32 avg)"));
}

TEST_F(NcclLaunchTest, ScalesAreAnOperatorThatIsMadeAndDestroyed) {
  EXPECT_THAT(allreduce(reducing(DataType::float16, ReduceOp::sum, 0.5, 0.5)),
              ElementsAre("ncclRedOpCreatePreMulSum(0.25)", "ncclAllReduce(5 float16 scaled sum)",
                          "ncclAllReduce(7 float16 scaled sum)", "ncclRedOpDestroy()"));
  EXPECT_THAT(allreduce(reducing(DataType::float64, ReduceOp::average, 6.0, 1.0)),
              ElementsAre("ncclRedOpCreatePreMulSum(2)", "ncclAllReduce(5 float64 scaled sum)",
                          "ncclAllReduce(7 float64 scaled sum)", "ncclRedOpDestroy()"));
}

// NCCL would round it to the elements' type.
TEST_F(NcclLaunchTest, ANarrowTypesFactorIsAPowerOfTwoAndTheRestIsOurs) {
  EXPECT_THAT(allreduce(reducing(DataType::bfloat16, ReduceOp::average)),
              ElementsAre("ncclRedOpCreatePreMulSum(0.25)", "ncclAllReduce(5 bfloat16 scaled sum)",
                          "ncclAllReduce(7 bfloat16 scaled sum)", "ncclRedOpDestroy()"));
  auto rest = [&](const Plan& plan) { return reduction_of(own_end(), plan, plan.dtype).rest; };
  EXPECT_DOUBLE_EQ(rest(reducing(DataType::bfloat16, ReduceOp::average)), 4.0 / 3.0);
  EXPECT_DOUBLE_EQ(rest(reducing(DataType::float16, ReduceOp::sum, -0.3)), 1.2);
  EXPECT_DOUBLE_EQ(rest(reducing(DataType::float16, ReduceOp::sum, 0.5, 0.5)), 1.0);
  EXPECT_DOUBLE_EQ(rest(reducing(DataType::float16, ReduceOp::sum, std::ldexp(1.0, -20))),
                   std::ldexp(1.0, -6));
  EXPECT_DOUBLE_EQ(rest(reducing(DataType::float32, ReduceOp::sum, 0.3)), 1.0);
}

TEST_F(NcclLaunchTest, BoolsAreBytesOfZeroAndOne) {
  EXPECT_THAT(allreduce(reducing(DataType::boolean, ReduceOp::sum)),
              ElementsAre("ncclAllReduce(5 uint8 max)", "ncclAllReduce(7 uint8 max)"));
  EXPECT_THAT(allreduce(reducing(DataType::boolean, ReduceOp::product)),
              ElementsAre("ncclAllReduce(5 uint8 min)", "ncclAllReduce(7 uint8 min)"));
}

TEST_F(NcclLaunchTest, AllgatherOfEqualPartsIsOneCall) {
  launch_allgather(own_end(), memory_, memory_, {8, 8, 8});
  EXPECT_THAT(calls(), ElementsAre("ncclAllGather(8 uint8)"));
  launch_allgather(own_end(), memory_, memory_, {0, 0, 0});
  EXPECT_THAT(calls(), ElementsAre());
}

TEST_F(NcclLaunchTest, RaggedAllgatherIsABroadcastOfEachPart) {
  launch_allgather(own_end(), memory_, memory_, {8, 0, 3});
  EXPECT_THAT(calls(), ElementsAre("ncclBroadcast(8 uint8 0)", "ncclBroadcast(3 uint8 2)"));
}

TEST_F(NcclLaunchTest, AlltoallSendsAndReceivesWhatIsThere) {
  launch_alltoall(own_end(), memory_, memory_, {4, 5, 0}, {0, 5, 6});
  EXPECT_THAT(calls(), ElementsAre("ncclSend(4 uint8 0)", "ncclSend(5 uint8 1)", "ncclRecv(5 uint8 1)",
                                   "ncclRecv(6 uint8 2)"));
}

TEST_F(NcclLaunchTest, ReducescatterOfUnequalPartsIsAReductionOfEach) {
  const Plan plan = reducing(DataType::float32, ReduceOp::min);
  NcclEnd by = own_end();
  launch_reducescatter(by, reduction_of(by, plan, plan.dtype), memory_, memory_, {2, 2, 2}, 4);
  EXPECT_THAT(calls(), ElementsAre("ncclReduceScatter(2 float32 min)"));
  launch_reducescatter(by, reduction_of(by, plan, plan.dtype), memory_, memory_, {2, 1, 0}, 4);
  EXPECT_THAT(calls(), ElementsAre("ncclReduce(2 float32 min 0)", "ncclReduce(1 float32 min 1)"));
}

TEST_F(NcclLaunchTest, BroadcastIsOneCallOfBytes) {
  launch_broadcast(own_end(), memory_, memory_, 12, 2);
  EXPECT_THAT(calls(), ElementsAre("ncclBroadcast(12 uint8 2)"));
}

TEST_F(NcclLaunchTest, AnErrorNamesTheCallAndHasNcclsWords) {
  const Plan plan = reducing(DataType::float32, ReduceOp::sum, 0.5);
  for (const std::string call :
       {"ncclRedOpCreatePreMulSum", "ncclAllReduce", "ncclGroupEnd", "ncclRedOpDestroy"}) {
    nccl_.fail(call, 1);
    try {
      allreduce(plan);
      ADD_FAILURE() << call;
    } catch (const BackendError& error) {
      EXPECT_EQ(std::string(error.what()), call + " failed: system error (as the test wants)");
    }
  }
}

TEST_F(NcclLaunchTest, KnowsWhatNcclDoesAsItIsMeant) {
  using enum DataType;
  EXPECT_TRUE(nccl_can_run(reducing(float16, ReduceOp::average, 0.5)));
  EXPECT_TRUE(nccl_can_run(reducing(int32, ReduceOp::sum)));
  EXPECT_FALSE(nccl_can_run(reducing(int32, ReduceOp::average))) << "whose sum wraps";
  EXPECT_FALSE(nccl_can_run(reducing(int32, ReduceOp::sum, 0.5))) << "saturated, in float64";
  EXPECT_FALSE(nccl_can_run(reducing(float32, ReduceOp::max, 0.5)));
  EXPECT_FALSE(nccl_can_run(reducing(int16, ReduceOp::sum))) << "has no such type";
  EXPECT_FALSE(nccl_can_run(reducing(float32, ReduceOp::adasum)));
  Plan plan = reducing(float32, ReduceOp::sum);
  plan.reduction_order = ReductionOrder::fixed;
  EXPECT_FALSE(nccl_can_run(plan));
  plan = reducing(float32, ReduceOp::sum);
  plan.measure = true;
  EXPECT_FALSE(nccl_can_run(plan));
  plan = reducing(int16, ReduceOp::sum);
  plan.operation = Operation::alltoall;
  EXPECT_TRUE(nccl_can_run(plan)) << "bytes";
  plan.operation = Operation::barrier;
  EXPECT_TRUE(nccl_can_run(plan)) << "by which ranks share windows";
}

// Who else was to come does not any more: no waiting for that.
TEST(NcclLane, IsAbortedWhileItConnects) {
  FakeNccl nccl;
  FakeDevice device(0);
  {
    NcclLane lane(nccl.library().functions, device, 1 << 10);
    lane.connect(ncclUniqueId{}, 2, 1);
    EXPECT_FALSE(lane.ready());
  }
  EXPECT_THAT(nccl.take_calls(1), ElementsAre("ncclCommInitRankConfig(1 of 2)", "ncclCommAbort()"));
}

}  // namespace
}  // namespace rueda
