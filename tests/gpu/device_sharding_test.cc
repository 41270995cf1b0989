// SPDX-License-Identifier: Apache-2.0
// The comparison of sharded models itself, on devices that are fakes.
#include <gmock/gmock.h>

#include <limits>

#include "tests/gpu/device_sharding.h"
#include "tests/support/worlds/torch_device_world.h"

namespace rueda {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using DeviceSharding = TorchDeviceWorld;

TEST_F(DeviceSharding, AShardedModelLearnsAsTheWholeDoes) {
  const auto compare = [](Runtime& runtime, const FakeTorchDevice& device) {
    EXPECT_LT(relative_difference(train_sharded_and_whole(runtime, device.name())), 1e-6);
  };
  run_torch(1, compare);
  run_torch(2, compare);
  run_torch_by_the_host(2, compare);
}

TEST(RelativeDifference, IsTheLargest) {
  EXPECT_DOUBLE_EQ(relative_difference({.sharded = {4, 3}, .whole = {4, 2}}), 0.5);
}

TEST(RelativeDifference, IsNoNumberWhereALossIsNone) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(relative_difference({.sharded = {none, 2}, .whole = {4, 2}}) < 1e-6);
}

TEST(RelativeDifference, NeedsLossesThatFall) {
  EXPECT_THAT([] { relative_difference({.sharded = {}, .whole = {}}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("there are 0 losses")));
  EXPECT_THAT(
      [] {
        relative_difference({.sharded = {4, 4}, .whole = {4, 4}});
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("has not learned")));
}

}  // namespace
}  // namespace rueda
