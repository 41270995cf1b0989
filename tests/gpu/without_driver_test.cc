// SPDX-License-Identifier: Apache-2.0
// What CUDA's own code does where there is no device: words, and no crash. With one, what it finds.
#include <gmock/gmock.h>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "ops/cuda/cuda_components.h"
#include "ops/cuda/cuda_devices.h"
#include "ops/cuda/cuda_report.h"
#include "ops/cuda/launch_batch_copy.h"
#include "rueda/rueda.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Cuda, SaysWhatItFinds) {
  const CudaFound found = find_cuda();
  EXPECT_EQ(found.devices == 0, !found.problem.empty());
  EXPECT_THAT(cuda_report(), HasSubstr(found.devices == 0 ? found.problem : "device"));
}

class WithoutADevice : public testing::Test {
 protected:
  void SetUp() override {
    if (find_cuda().devices > 0) GTEST_SKIP() << "there is a device here";
  }
};

TEST_F(WithoutADevice, ATensorThereIsRefusedInOneLine) {
  MemoryNetwork network(1);
  run_ranks_of(
      1,
      [](Runtime& runtime) {
        std::vector<float> values(5, 1.0f);
        Submission submission;
        submission.request.name = "t";
        submission.request.shape = {5};
        submission.request.device = DeviceKind::cuda;
        submission.output = view(values);
        submission.input = submission.output;
        EXPECT_THAT([&] { runtime.submit(std::move(submission)); },
                    ThrowsMessage<InvalidArgument>(
                        "allreduce 't': rank 0 gave a tensor on a cuda device, but there is " +
                        find_cuda().problem + "; copy it to the host first."));
      },
      [&](Rank rank) {
        RuntimeComponents components = memory_components(network, rank, 1, {});
        add_cuda(components, std::make_shared<CudaDevices>());
        return components;
      });
}

TEST_F(WithoutADevice, DevicesAreRefusedByNumber) {
  CudaDevices devices;
  EXPECT_THAT([&] { devices.at(0); }, ThrowsMessage<InvalidArgument>(HasSubstr("there is no CUDA device 0")));
}

// All of the kernels are in the program; the first launch says what is missing.
TEST_F(WithoutADevice, ALaunchIsAnErrorInCudasWords) {
  for (const DataType dtype : {DataType::float32, DataType::bfloat16}) {
    const BatchCopy copy{dtype, dtype, 0.5, {{nullptr, nullptr, 1}}};
    EXPECT_THAT([&] { launch_batch_copy(copy, nullptr); },
                ThrowsMessage<BackendError>(HasSubstr("launching batch_copy failed: ")));
  }
}

}  // namespace
}  // namespace rueda
