// SPDX-License-Identifier: Apache-2.0
// What rueda-bench measures on devices, on fakes: that it is what it says, and that results are right.
#include <gmock/gmock.h>

#include "bench/rueda_bench/devices/device_subject.h"
#include "bench/rueda_bench/devices/pack.h"
#include "core/engine/runtime.h"
#include "ops/cuda/cuda_components.h"
#include "ops/nccl/nccl_components.h"
#include "rueda/rueda.h"
#include "tests/fakes/cuda/fake_devices.h"
#include "tests/fakes/nccl/fake_nccl.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda::bench {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Purpose: a second for each operation; waits as a real one does.
class FakeClock final : public DeviceClock {
 public:
  explicit FakeClock(FakeDevice& device) : device_(device) {}
  void start(DeviceStream) override { started_ = true; }
  double stop(DeviceStream stream) override {
    EXPECT_TRUE(std::exchange(started_, false));
    const auto fence = device_.record(stream);
    while (!fence->passed()) std::this_thread::yield();
    return 1.0;
  }

 private:
  FakeDevice& device_;
  bool started_ = false;
};

std::unique_ptr<BenchDevice> fake_bench_device(const std::shared_ptr<FakeDevices>& devices) {
  return std::make_unique<BenchDevice>(devices, 0, std::make_unique<FakeClock>(devices->device()));
}

constexpr Operation kOperations[] = {Operation::allreduce, Operation::allgather, Operation::broadcast,
                                     Operation::alltoall, Operation::reducescatter};

TEST(DeviceBench, EveryOperationByRuedaAndByNcclAloneGivesTheRightResult) {
  FakeNccl nccl;
  MemoryNetwork network(2);
  std::vector<std::shared_ptr<FakeDevices>> devices;
  for (Rank rank = 0; rank < 2; ++rank)
    devices.push_back(std::make_shared<FakeDevices>(static_cast<unsigned>(rank), std::to_string(rank)));
  run_ranks_of(
      2,
      [&](Runtime& runtime) {
        const Rank rank = runtime.topology().rank;
        const auto device = fake_bench_device(devices[rank]);
        const auto subject = device_subject(runtime, *device);
        const auto reference = nccl_reference(runtime, *device, nccl.library());
        for (const Operation operation : kOperations) {
          for (const DataType dtype : {DataType::float32, DataType::bfloat16, DataType::boolean}) {
            const Collective what{operation, dtype, 4096};
            auto memory = [&](std::size_t bytes) { return subject->allocate(MemoryKind::ordinary, bytes); };
            CollectiveBuffers ours(what, rank, 2, memory), theirs(what, rank, 2, memory);
            ASSERT_TRUE(reference->has(what));
            for (int step = 0; step < 2; ++step) {
              ours.fill();
              const void* result = nullptr;
              EXPECT_EQ(subject->run(ours, result, false), 1.0);
              EXPECT_EQ(ours.wrong(result), 0u) << to_string(operation) << ' ' << to_string(dtype);
              theirs.fill();
              EXPECT_EQ(reference->seconds(theirs), 1.0);
              EXPECT_EQ(theirs.wrong(theirs.output().data), 0u) << to_string(operation);
            }
          }
        }
        EXPECT_FALSE(reference->has({Operation::allreduce, DataType::int16, 64}));
      },
      [&](Rank rank) {
        RuntimeComponents components = memory_components(network, rank, 2, {});
        add_nccl(components, add_cuda(components, devices[rank]),
                 [&]() -> const NcclLibrary& { return nccl.library(); });
        return components;
      });
}

TEST(DeviceBench, WithoutNcclThereIsAReason) {
  MemoryNetwork network(1);
  const auto devices = std::make_shared<FakeDevices>(0);
  run_ranks_of(
      1,
      [&](Runtime& runtime) {
        const auto device = fake_bench_device(devices);
        NcclLibrary missing;
        missing.problem = "libnccl.so.2: cannot open shared object file";
        EXPECT_THAT([&] { nccl_reference(runtime, *device, missing); },
                    testing::ThrowsMessage<std::runtime_error>(
                        "--against nccl: libnccl.so.2: cannot open shared object file"));
      },
      [&](Rank rank) {
        RuntimeComponents components = memory_components(network, rank, 1, {});
        add_cuda(components, devices);
        return components;
      });
}

TEST(DeviceBench, PackingIsMeasuredBothWaysAndInTwoTypes) {
  const auto devices = std::make_shared<FakeDevices>(3);
  const auto device = fake_bench_device(devices);
  const Workload workload{{{"a", 1}, {"b", 1000}, {"c", 33}}};
  const std::vector<PackRow> rows = measure_pack(*device, workload, 3, 1);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].what, "pack float32");
  EXPECT_EQ(rows[0].bytes, 8 * 1034);
  EXPECT_EQ(rows[3].what, "unpack float32 as bfloat16");
  EXPECT_EQ(rows[3].bytes, 6 * 1034);
  for (const PackRow& row : rows) {
    EXPECT_EQ(row.seconds, std::vector<double>(3, 1.0));
    EXPECT_EQ(row.copied, std::vector<double>(3, 1.0));
  }
}

}  // namespace
}  // namespace rueda::bench
