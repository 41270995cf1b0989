// SPDX-License-Identifier: Apache-2.0
// Tensors on devices by way of the host: the ranks are threads, and their devices fakes whose memory the host
// cannot touch and whose streams go on in any order.
#include <gmock/gmock.h>

#include "core/engine/runtime.h"
#include "ops/cuda/cuda_components.h"
#include "rueda/rueda.h"
#include "tests/fakes/cuda/fake_devices.h"
#include "tests/support/conformance/device_conformance.h"
#include "tests/support/training/device_ones.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using ::testing::HasSubstr;
using Body = std::function<void(Runtime&, FakeDevice&)>;

// Where shm_slots is 0 they share no memory; ranks_per_host as MemoryNetwork has it.
struct World {
  Rank ranks = 1;
  std::size_t shm_slots = 0;
  Rank ranks_per_host = 0;
};

void run_on_devices(World world, const Body& body, Config config = {}) {
  const Rank ranks = world.ranks;
  MemoryNetwork network(ranks, world.shm_slots, world.ranks_per_host);
  std::vector<std::shared_ptr<FakeDevices>> devices;
  for (Rank rank = 0; rank < ranks; ++rank)
    devices.push_back(std::make_shared<FakeDevices>(static_cast<unsigned>(rank)));
  run_ranks_of(
      ranks, [&](Runtime& runtime) { body(runtime, devices[runtime.topology().rank]->device()); },
      [&](Rank rank) {
        RuntimeComponents components = memory_components(network, rank, ranks, config);
        add_cuda(components, devices[rank]);
        return components;
      });
}

// Rank 1's tensor on its way out of a device is overtaken by operations of the host's tensors.
void broadcast_overtaken_by_the_host(Runtime& runtime, FakeDevice& device) {
  constexpr std::size_t kElements = 50'000;
  const Rank rank = runtime.topology().rank;
  DeviceOnes tensor(device, kElements);
  std::vector<std::vector<float>> host(5);
  for (int round = 0; round < 100; ++round) {
    std::fill_n(tensor.values(), kElements, static_cast<float>(rank == 1 ? round : -1));
    for (auto& each : host) each.assign(kElements, static_cast<float>(round + rank));
    Submission submission = tensor.sum("d");
    submission.request.operation = Operation::broadcast;
    submission.request.root = 1;
    for (int i = 0; i < 20 * rank; ++i) device.give(submission.stream, [] {});  // it is late on one rank
    const Handle on_device = runtime.submit(std::move(submission));
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < host.size(); ++i)
      handles.push_back(allreduce_async("h" + std::to_string(i), view(host[i]), view(host[i]),
                                        {i % 2 == 0 ? ReduceOp::sum : ReduceOp::max}, runtime));
    for (const Handle& handle : handles) handle.wait();
    wait_on_device(on_device);
    for (std::size_t i = 0; i < host.size(); ++i) {
      const auto expected = static_cast<float>(i % 2 == 0 ? 2 * round + 1 : round + 1);
      ASSERT_EQ(std::ranges::count(host[i], expected), std::ssize(host[i])) << i << ", round " << round;
    }
    ASSERT_EQ(std::count(tensor.values(), tensor.values() + kElements, static_cast<float>(round)),
              static_cast<std::ptrdiff_t>(kElements));
  }
}

class StagedDevices : public testing::TestWithParam<World> {};

TEST_P(StagedDevices, ReduceAsTheHostDoes) { run_on_devices(GetParam(), check_device_allreduce); }
TEST_P(StagedDevices, ExchangeAsTheHostDoes) { run_on_devices(GetParam(), check_device_exchange); }
INSTANTIATE_TEST_SUITE_P(Every, StagedDevices,
                         testing::Values(World{1}, World{3}, World{2, 4}, World{4, 4, 2}),
                         [](const auto& info) {
                           const World& world = info.param;
                           const char* way = world.shm_slots == 0        ? "_by_links"
                                             : world.ranks_per_host == 0 ? "_on_a_host"
                                                                         : "_on_two_hosts";
                           return std::to_string(world.ranks) + way;
                         });

// Copies on the device, through nobody's memory.
TEST(StagedDevices, ARankAloneNeedsNoMemory) {
  run_on_devices({1}, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 100);
    device.take_memory_from(0);
    Submission submission = ones.sum("t");
    submission.request.prescale_factor = 3.0;
    const Handle handle = runtime.submit(std::move(submission));
    handle.wait();
    device.finish();
    EXPECT_EQ(ones.values()[99], 3.0f);
  });
}

TEST(StagedDevices, AJoinedRankTakesPart) { run_on_devices({2}, sum_beside_a_joined_rank); }

// Several chunks, which its ranks have to take in one order, though only some of them copy meanwhile.
TEST(StagedDevices, AJoinedRankTakesPartInLongOnes) {
  for (const World& world : {World{3}, World{3, 4}}) {
    run_on_devices(world, [](Runtime& runtime, FakeDevice& device) {
      const Rank rank = runtime.topology().rank;
      if (rank != 2) {
        constexpr std::size_t kElements = 100'003;
        DeviceOnes ones(device, kElements);
        for (std::size_t i = 0; i < kElements; ++i) ones.values()[i] = static_cast<float>(i % 1009 + rank);
        wait_on_device(runtime.submit(ones.sum("t")));
        for (std::size_t i = 0; i < kElements; ++i)
          ASSERT_EQ(ones.values()[i], static_cast<float>(2 * (i % 1009) + 1)) << "element " << i;
      }
      join(runtime);
    });
  }
}

TEST(StagedDevices, AreNotMixedUpWithWhatComesLater) {
  Config config;
  config.fusion_threshold = 0;
  run_on_devices({2, 4}, broadcast_overtaken_by_the_host, config);
}

TEST(StagedDevices, MissingMemoryFailsTheOperationEverywhereAndTheNextWorks) {
  run_on_devices({3}, [](Runtime& runtime, FakeDevice& device) {
    const Rank rank = runtime.topology().rank;
    DeviceOnes large(device, 1 << 20);
    if (rank == 1) device.take_memory_from(1 << 20);
    const Status status = runtime.submit(large.sum("large")).wait_status();
    EXPECT_EQ(status.code, StatusCode::backend_error);
    EXPECT_THAT(status.message, HasSubstr("rank 1"));
    EXPECT_THAT(status.message, HasSubstr("pinned memory, 4194304 bytes"));
    DeviceOnes small(device, 10);
    const Handle handle = runtime.submit(small.sum("small"));
    handle.wait();
    device.finish();
    EXPECT_EQ(small.values()[0], 3.0f);
  });
}

// Through links, and through shared memory.
TEST(StagedDevices, AMissingOutputFailsTheOperationEverywhere) {
  for (const World& world : {World{3}, World{2, 4}}) run_on_devices(world, missing_output_fails_everywhere);
}

TEST(StagedDevices, WaitsForWhatTheProgramsStreamHasToDoFirst) {
  run_on_devices({2}, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 50);
    Submission submission = ones.sum("t");
    for (int i = 0; i < 50; ++i) device.give(submission.stream, [&ones, i] { ones.values()[i] += 1.0f; });
    const Handle handle = runtime.submit(std::move(submission));
    handle.wait();
    device.finish();
    EXPECT_EQ(ones.values()[49], 4.0f);
  });
}

}  // namespace
}  // namespace rueda
