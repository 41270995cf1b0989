// SPDX-License-Identifier: Apache-2.0
// Every operation on ranks that are threads, with data by TCP over loopback.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

#include "core/engine/runtime.h"
#include "ops/tcp/tcp_components.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/conformance.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

// Control messages in memory; each rank stands on a host of its own.
RuntimeComponents tcp_components(MemoryNetwork& network, Rank rank, Rank ranks, const Config& config) {
  RuntimeComponents components = memory_components(network, rank, ranks, config);
  components.host = "host" + std::to_string(rank);
  components.backends.pop_back();
  add_tcp(components, {}, network.memory(rank));
  std::swap(components.backends.front(),
            components.backends.back());  // as ops::defaults has them: local is first
  return components;
}

class TcpOperationsTest : public testing::TestWithParam<std::tuple<Rank, std::size_t>> {
 protected:
  void run(const std::function<void(Runtime&)>& check) {
    const auto [ranks, rails] = GetParam();
    Config config;
    config.ring_chunk = rails == 1 ? 192 : 1 << 18;
    config.short_bytes = rails == 1 ? 0 : 1024;
    config.medium_bytes = rails == 1 ? 0 : 4096;
    config.network = "tcp";
    config.rails = rails == 1 ? "127.0.0.1" : "127.0.0.1,127.0.0.2";
    MemoryNetwork network(ranks);
    run_ranks_of(ranks, check, [&](Rank rank) { return tcp_components(network, rank, ranks, config); });
    EXPECT_EQ(network.moved_bytes(), 0u);
  }
};

TEST_P(TcpOperationsTest, Allreduce) { run(check_allreduce); }
TEST_P(TcpOperationsTest, Allgather) { run(check_allgather); }
TEST_P(TcpOperationsTest, Broadcast) { run(check_broadcast); }
TEST_P(TcpOperationsTest, Alltoall) { run(check_alltoall); }
TEST_P(TcpOperationsTest, Messages) { run(check_messages); }
TEST_P(TcpOperationsTest, Reduce) { run(check_reduce); }
TEST_P(TcpOperationsTest, Gather) { run(check_gather); }
TEST_P(TcpOperationsTest, Scatter) { run(check_scatter); }
TEST_P(TcpOperationsTest, Reducescatter) { run(check_reducescatter); }
TEST_P(TcpOperationsTest, Adasum) { run(check_adasum); }
TEST_P(TcpOperationsTest, Strides) { run(check_strides); }
TEST_P(TcpOperationsTest, Barrier) { run(check_barrier); }
TEST_P(TcpOperationsTest, Mismatches) { run(check_mismatches); }
TEST_P(TcpOperationsTest, NameInFlight) { run(check_name_in_flight); }

INSTANTIATE_TEST_SUITE_P(Ranks, TcpOperationsTest,
                         testing::Combine(testing::Values(2, 3, 4), testing::Values(1, 2)),
                         [](const auto& info) {
                           return "Ranks" + std::to_string(std::get<0>(info.param)) + "Rails" +
                                  std::to_string(std::get<1>(info.param));
                         });

// An abandoned Work sends empty messages, where long ones are expected and granted.
TEST(TcpAborts, LeaveTheLinkInOrder) {
  constexpr Rank kRanks = 3;
  MemoryNetwork network(kRanks);
  Config config;
  config.ring_chunk = 64 << 10;
  config.short_bytes = 0;
  config.network = "tcp";
  config.rails = "127.0.0.1,127.0.0.2";
  const auto body = [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    for (Rank bad = 0; bad < 2 * kRanks; ++bad) {
      if (rank == bad % kRanks) network.take_memory_from(rank, 4096);
      std::vector<float> values(200'000, 1.0f);
      const Handle fails = allreduce_async("fails", view(values), view(values), {ReduceOp::sum}, runtime);
      const Status status = fails.wait_status();
      const bool named = status.message.find("no memory for partial sums") != std::string::npos;
      EXPECT_TRUE(named || rank != bad % kRanks) << status.message;
      network.take_memory_from(rank, std::numeric_limits<std::size_t>::max());
      barrier_async(runtime).wait();
      std::vector<float> next(200'000, static_cast<float>(rank));
      allreduce_async("next", view(next), view(next), {ReduceOp::sum}, runtime).wait();
      ASSERT_EQ(next, std::vector<float>(200'000, 3.0f));
    }
  };
  run_ranks_of(kRanks, body, [&](Rank rank) { return tcp_components(network, rank, kRanks, config); });
}

}  // namespace
}  // namespace rueda
