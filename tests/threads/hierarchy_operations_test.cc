// SPDX-License-Identifier: Apache-2.0
// Every operation on several hosts of several ranks, which are threads: shared memory inside a host, messages
// in memory or by TCP between them.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/rueda.h"
#include "ops/hierarchy/hierarchy_parts.h"
#include "ops/tcp/tcp_parts.h"
#include "tests/support/conformance.h"
#include "tests/support/memory_world.h"

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
    run_ranks_on(network, ranks_of(hosts), check, config);
  }
};

TEST_P(HierarchyTest, Allreduce) { run(check_allreduce); }
TEST_P(HierarchyTest, Allgather) { run(check_allgather); }
TEST_P(HierarchyTest, Broadcast) { run(check_broadcast); }
TEST_P(HierarchyTest, Alltoall) { run(check_alltoall); }
TEST_P(HierarchyTest, Reducescatter) { run(check_reducescatter); }
TEST_P(HierarchyTest, Adasum) { run(check_adasum); }
TEST_P(HierarchyTest, Strides) { run(check_strides); }
TEST_P(HierarchyTest, Barrier) { run(check_barrier); }
TEST_P(HierarchyTest, Mismatches) { run(check_mismatches); }
TEST_P(HierarchyTest, NameInFlight) { run(check_name_in_flight); }

INSTANTIATE_TEST_SUITE_P(Hosts, HierarchyTest,
                         testing::Combine(testing::Values(Sizes{2, 2}, Sizes{1, 2, 1}, Sizes{2, 2, 2},
                                                          Sizes{3, 1}),
                                          testing::Values(std::int64_t{192}, std::int64_t{1} << 18)),
                         [](const auto& info) {
                           std::string name = "Hosts";
                           for (Rank size : std::get<0>(info.param)) name += std::to_string(size);
                           return name + "Chunk" + std::to_string(std::get<1>(info.param));
                         });

// What has crossed the network between `begin` and the end of an operation that all ranks have ended.
TEST(Hierarchy, AnAllreduceCrossesEachCardOnce) {
  const Sizes hosts{2, 2, 2};
  constexpr std::size_t kElements = 1 << 20, kBytes = kElements * sizeof(float);
  MemoryNetwork network(6, 8);
  network.stand_on_hosts(hosts);
  run_ranks_on(network, 6, [&](Runtime& runtime) {
    std::vector<float> values(kElements, static_cast<float>(runtime.topology().rank));
    allreduce_async("x", view(values), view(values), {ReduceOp::sum}, runtime).wait();
    ASSERT_EQ(values, std::vector<float>(kElements, 15.0f));
  });
  EXPECT_EQ(network.moved_bytes(), 2 * (hosts.size() - 1) * kBytes);  // 2(h-1)/h by each of h
}

}  // namespace
}  // namespace rueda
