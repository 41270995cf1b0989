// SPDX-License-Identifier: Apache-2.0
// Every operation on several hosts of several ranks, which are threads: shared memory inside a host, messages
// in memory or by TCP between them.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/runtime.h"
#include "ops/hierarchy/hierarchy_components.h"
#include "ops/tcp/tcp_components.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/conformance.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using Sizes = std::vector<Rank>;  // of hosts

Rank ranks_of(const Sizes& hosts) {
  Rank ranks = 0;
  for (Rank size : hosts) ranks += size;
  return ranks;
}

class HierarchyTest : public testing::TestWithParam<std::tuple<Sizes, std::int64_t>> {
 protected:
  void run(const std::function<void(Runtime&)>& check) {
    const auto& [hosts, chunk] = GetParam();
    MemoryNetwork network(ranks_of(hosts), 8);
    network.stand_on_hosts(hosts);
    Config config;
    config.ring_chunk = chunk;
    config.rings = chunk == 768 ? 2 : 0;
    run_ranks_on(network, ranks_of(hosts), check, config);
  }
};

TEST_P(HierarchyTest, Allreduce) { run(check_allreduce); }
TEST_P(HierarchyTest, Allgather) { run(check_allgather); }
TEST_P(HierarchyTest, Broadcast) { run(check_broadcast); }
TEST_P(HierarchyTest, Alltoall) { run(check_alltoall); }
TEST_P(HierarchyTest, Messages) { run(check_messages); }
TEST_P(HierarchyTest, Reduce) { run(check_reduce); }
TEST_P(HierarchyTest, Gather) { run(check_gather); }
TEST_P(HierarchyTest, Scatter) { run(check_scatter); }
TEST_P(HierarchyTest, Reducescatter) { run(check_reducescatter); }
TEST_P(HierarchyTest, Adasum) { run(check_adasum); }
TEST_P(HierarchyTest, Strides) { run(check_strides); }
TEST_P(HierarchyTest, Barrier) { run(check_barrier); }
TEST_P(HierarchyTest, Mismatches) { run(check_mismatches); }
TEST_P(HierarchyTest, NameInFlight) { run(check_name_in_flight); }

INSTANTIATE_TEST_SUITE_P(Hosts, HierarchyTest,
                         testing::Combine(testing::Values(Sizes{2, 2}, Sizes{1, 2, 1}, Sizes{2, 2, 2},
                                                          Sizes{3, 1}),
                                          testing::Values(std::int64_t{768}, std::int64_t{1} << 18)),
                         [](const auto& info) {
                           std::string name = "Hosts";
                           for (Rank size : std::get<0>(info.param)) name += std::to_string(size);
                           return name + "Chunk" + std::to_string(std::get<1>(info.param));
                         });

// Control messages in memory, data between hosts by TCP over loopback.
RuntimeComponents tcp_components(MemoryNetwork& network, Rank rank, Rank ranks, const Config& config) {
  RuntimeComponents components = memory_components(network, rank, ranks, config);
  components.backends.pop_back();
  add_tcp(components, {}, network.memory(rank));
  std::swap(components.backends.front(),
            components.backends.back());  // as ops::defaults has them: local is first
  add_hierarchy(components, add_shared_memory(components));
  network.set_doorbell(rank, components.doorbell);
  return components;
}

TEST(HierarchyOverTcp, Conforms) {
  for (const Sizes& hosts : {Sizes{2, 2}, Sizes{1, 2, 1}}) {
    for (const std::int64_t chunk : {4096, 1 << 18}) {
      Config config;
      config.ring_chunk = chunk;
      config.rings = chunk == 4096 ? 2 : 0;
      config.network = "tcp";
      config.rails = "127.0.0.1,127.0.0.2";
      MemoryNetwork network(ranks_of(hosts));
      network.stand_on_hosts(hosts);
      auto check = [](Runtime& runtime) {
        check_allreduce(runtime);
        check_allgather(runtime);
        check_broadcast(runtime);
        check_reducescatter(runtime);
        check_strides(runtime);
        check_mismatches(runtime);
      };
      run_ranks_of(ranks_of(hosts), check,
                   [&](Rank rank) { return tcp_components(network, rank, ranks_of(hosts), config); });
      EXPECT_EQ(network.moved_bytes(), 0u);
    }
  }
}

// Bytes of data between ranks when all of them allreduce so many elements of their rank's number. The first
// operation of all ranks comes when rank 0 knows which hosts share memory.
std::uint64_t moved_by_allreduce(const Sizes& hosts, std::size_t elements, const Reduction& reduction,
                                 const std::function<Config(Rank)>& config_of) {
  MemoryNetwork network(ranks_of(hosts), 8);
  network.stand_on_hosts(hosts);
  const Rank ranks = ranks_of(hosts);
  run_ranks_on(
      network, ranks,
      [&](Runtime& runtime) {
        std::vector<float> values(elements, static_cast<float>(runtime.topology().rank));
        allreduce_async("x", view(values), view(values), reduction, runtime).wait();
        ASSERT_EQ(values, std::vector<float>(elements, static_cast<float>(ranks * (ranks - 1) / 2)));
      },
      config_of);
  return network.moved_bytes();
}

constexpr std::size_t kElements = 1 << 20, kBytes = kElements * sizeof(float);

TEST(Hierarchy, AnAllreduceCrossesEachCardOnce) {
  auto defaults = [](Rank) { return Config(); };
  // 2(h-1)/h of the tensor by each of h hosts; a flat ring would move as much for each rank.
  EXPECT_EQ(moved_by_allreduce({2, 2, 2}, kElements, {ReduceOp::sum}, defaults), 2 * 2 * kBytes);
  EXPECT_EQ(moved_by_allreduce({1, 3}, kElements, {ReduceOp::sum}, defaults), 2 * kBytes);
  Reduction narrow{ReduceOp::sum};
  narrow.compression = Compression::bf16;
  EXPECT_EQ(moved_by_allreduce({2, 2}, kElements, narrow, defaults), kBytes);
  Reduction fixed{ReduceOp::sum};
  fixed.order = ReductionOrder::fixed;
  EXPECT_GT(moved_by_allreduce({2, 2}, kElements, fixed, defaults), 4 * kBytes) << "of all ranks";
}

// Which lies in the window of every rank, and on some it is not reduced where it is.
TEST(Hierarchy, NothingIsReducedToo) {
  MemoryNetwork network(4, 8);
  network.stand_on_hosts({2, 2});
  run_ranks_on(network, 4, [](Runtime& runtime) {
    float there = 0, here = 0;
    const bool in_place = runtime.topology().rank % 2 == 0;
    for (int round = 0; round < 3; ++round) {
      const Handle handle =
          allreduce_async("x", ConstTensorView(in_place ? &here : &there, DataType::float32, {0}),
                          TensorView(&here, DataType::float32, {0}), {ReduceOp::sum}, runtime);
      handle.wait();
    }
  });
}

// Bytes of data between 6 ranks on 3 hosts when `act` moves kBytes.
std::uint64_t moved_by(const std::function<void(Runtime&)>& act) {
  MemoryNetwork network(6, 8);
  network.stand_on_hosts({2, 3, 1});
  run_ranks_on(network, 6, act);
  return network.moved_bytes();
}

TEST(Hierarchy, TheOthersCrossEachCardOnceToo) {
  EXPECT_EQ(moved_by([](Runtime& runtime) {
              std::vector<float> values(kElements, static_cast<float>(runtime.topology().rank));
              broadcast_async("x", view(values), view(values), 3, runtime).wait();
              ASSERT_EQ(values, std::vector<float>(kElements, 3.0f));
            }),
            2 * kBytes)
      << "to two other hosts";
  EXPECT_EQ(moved_by([](Runtime& runtime) {
              const Rank rank = runtime.topology().rank;
              std::vector<float> values(kElements, static_cast<float>(rank));
              const Handle handle = reducescatter_async("x", view(values), {ReduceOp::sum}, runtime);
              handle.wait();
              const TensorView output = handle.output();
              ASSERT_EQ(output.elements(), static_cast<std::int64_t>(kElements / 6 + (rank < 4 ? 1 : 0)));
              const auto* share = static_cast<const float*>(output.data);
              ASSERT_EQ(std::vector<float>(share, share + output.elements()),
                        std::vector<float>(static_cast<std::size_t>(output.elements()), 15.0f));
            }),
            2 * kBytes)
      << "partial sums of each host's part from two others";
  const std::uint64_t gathered = moved_by([](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const std::size_t own = rank == 2 ? kElements / 2 : rank == 5 ? 0 : kElements / 8;
    std::vector<float> values(own, static_cast<float>(rank));
    const Handle handle = allgather_async("x", view(values), runtime);
    handle.wait();
    ASSERT_EQ(handle.output().elements(), static_cast<std::int64_t>(kElements));
    const auto* all = static_cast<const float*>(handle.output().data);
    std::vector<float> expected;
    for (Rank from = 0; from < 5; ++from)
      expected.insert(expected.end(), from == 2 ? kElements / 2 : kElements / 8, static_cast<float>(from));
    ASSERT_EQ(std::vector<float>(all, all + kElements), expected);
  });
  EXPECT_EQ(gathered, 2 * (kBytes + 6 * sizeof(std::int64_t)))
      << "what each host has to two others, and the sizes";
}

TEST(Hierarchy, IsLeftOutWhereARankSharesNoMemory) {
  for (const Rank without : {0, 1, 3}) {
    const auto moved = moved_by_allreduce({2, 2}, kElements, {ReduceOp::sum}, [&](Rank rank) {
      Config config;
      config.shm = rank != without;
      return config;
    });
    EXPECT_EQ(moved, 2 * 3 * kBytes) << "by one ring of all ranks, without " << without;
  }
}

TEST(Hierarchy, RankZeroSaysHowManySlices) {
  for (const std::int64_t rings : {0, 1, 7}) {
    const auto moved = moved_by_allreduce({2, 1, 2}, kElements, {ReduceOp::sum}, [&](Rank rank) {
      Config config;
      config.rings = rank == 0 ? rings : 3 + rank;
      return config;
    });
    EXPECT_EQ(moved, 2 * 2 * kBytes);
  }
}

// A set on one host moves nothing over the network; one over both hosts as much as they need.
TEST(Hierarchy, ProcessSetsOfAnyRanks) {
  MemoryNetwork network(5, 8);
  network.stand_on_hosts({2, 3});
  std::atomic<std::uint64_t> before{0}, between{0};
  run_ranks_on(network, 5, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const ProcessSet near = add_process_set(RankSet(2, 5), runtime),
                     far = add_process_set(RankSet(1, 4), runtime);
    auto sum = [&](const ProcessSet& set, float expected) {
      std::vector<float> values(kElements, static_cast<float>(rank));
      allreduce_async("x", view(values), view(values), {ReduceOp::sum}, set).wait();
      ASSERT_EQ(values, std::vector<float>(kElements, expected));
    };
    barrier_async(runtime).wait();
    barrier_async(runtime).wait();
    if (rank == 2) before = network.moved_bytes();
    if (rank >= 2) sum(near, 9.0f);
    if (rank == 2) between = network.moved_bytes();
    if (rank >= 1 && rank < 4) sum(far, 6.0f);
  });
  EXPECT_LT(between - before, 1000u);  // barriers
  EXPECT_LT(network.moved_bytes() - between, 2 * kBytes + 1000);
  EXPECT_GE(network.moved_bytes() - between, 2 * kBytes);
}

// Whoever lacks memory, for whatever: all ranks of all hosts hear why, and the next operation works.
TEST(Hierarchy, ARankWithoutMemoryFailsOneOperationOnAllHosts) {
  const Sizes hosts{2, 1, 3};
  constexpr Rank kRanks = 6;
  MemoryNetwork network(kRanks, 8);
  network.stand_on_hosts(hosts);
  std::atomic<int> failed{0};
  run_ranks_on(network, kRanks, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    for (Rank bad = 0; bad < kRanks; ++bad) {
      for (const DataType dtype : {DataType::float32, DataType::float16}) {
        if (rank == bad) network.take_memory_from(rank, 4096);
        std::vector<float> values(500'000, 1.0f);
        const TensorView all{values.data(), dtype, {500'000}, {}};
        const Status status = allreduce_async("fails", all, all, {ReduceOp::sum}, runtime).wait_status();
        EXPECT_FALSE(status.ok()) << "rank " << bad;
        EXPECT_NE(status.message.find("no memory for partial sums"), std::string::npos) << status.message;
        failed += status.ok() ? 0 : 1;
        network.take_memory_from(rank, std::numeric_limits<std::size_t>::max());
        barrier_async(runtime).wait();
        std::vector<float> next(200'000, static_cast<float>(rank));
        allreduce_async("next", view(next), view(next), {ReduceOp::sum}, runtime).wait();
        ASSERT_EQ(next, std::vector<float>(200'000, 15.0f));
      }
    }
  });
  EXPECT_EQ(failed, 2 * kRanks * kRanks);
}

}  // namespace
}  // namespace rueda
