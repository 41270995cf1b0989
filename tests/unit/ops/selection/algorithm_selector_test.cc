// SPDX-License-Identifier: Apache-2.0
// Which allreduces are short: the arithmetic, what is measured, what is read from a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <thread>

#include "core/base/time.h"
#include "ops/schedules/recursive_doubling.h"
#include "ops/selection/algorithm_selector.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/worlds/memory_network.h"

namespace rueda {
namespace {

using testing::HasSubstr;

double seconds_of_ring(const LinkCosts& costs, Rank ranks, double bytes) {
  const double sent = bytes * 2 * (ranks - 1) / ranks;
  return 2.0 * (ranks - 1) * costs.message + sent * costs.byte + sent / 2 * kReduceByte;
}
double seconds_of_doubling(const LinkCosts& costs, Rank ranks, Rank on_a_host, double bytes) {
  return doubling_rounds(ranks) * (costs.message + bytes * (on_a_host * costs.byte + kReduceByte));
}
double seconds_of_halving(const LinkCosts& costs, Rank ranks, Rank on_a_host, double bytes) {
  const double sent = bytes * 2 * (ranks - 1) / ranks;
  return 2 * doubling_rounds(ranks) * costs.message + sent * on_a_host * costs.byte + sent / 2 * kReduceByte;
}

TEST(PairedBytes, AreThoseOfTheQuickest) {
  for (const LinkCosts costs : {LinkCosts{50e-6, 40e-9}, LinkCosts{5e-6, 1e-9}, LinkCosts{25e-6, 0.3e-9}}) {
    for (const Rank ranks : {2, 3, 4, 5, 8, 17, 64, 1000}) {
      for (const Rank on_a_host : {1, 2}) {
        const PairedBytes most = paired_bytes(costs, ranks, on_a_host);
        for (double bytes = 1; bytes < kMostPaired; bytes *= 1.37) {
          const double doubling = seconds_of_doubling(costs, ranks, on_a_host, bytes);
          const double ring = seconds_of_ring(costs, ranks, bytes);
          const double halving = std::has_single_bit(static_cast<unsigned>(ranks))
                                     ? seconds_of_halving(costs, ranks, on_a_host, bytes)
                                     : ring;
          const double chosen = bytes <= most.doubling ? doubling : bytes <= most.halving ? halving : ring;
          ASSERT_LE(chosen, std::min({doubling, halving, ring}) * (1 + 1e-9))
              << bytes << " bytes of " << ranks << " ranks, " << on_a_host << " a host";
        }
      }
    }
  }
}

TEST(AlgorithmSelector, PredictsByTheModelOfItsDecision) {
  const LinkCosts costs{50e-6, 40e-9};
  AlgorithmSelector selector("tcp", Config());
  Plan plan;
  plan.operation = Operation::allreduce;
  plan.buffer_bytes = 1 << 20;
  plan.members = std::make_shared<const RankSet>(0, 4);
  EXPECT_EQ(selector.predicted_seconds(plan), 0) << "nothing has been measured";
  selector.use(costs, 2);
  EXPECT_NEAR(selector.predicted_seconds(plan), seconds_of_ring(costs, 4, 1 << 20), 1e-9);
  plan.pairing = Pairing::doubling;
  EXPECT_NEAR(selector.predicted_seconds(plan), seconds_of_doubling(costs, 4, 2, 1 << 20), 1e-9);
  plan.pairing = Pairing::halving;
  EXPECT_NEAR(selector.predicted_seconds(plan), seconds_of_halving(costs, 4, 2, 1 << 20), 1e-9);
  plan.pairing = Pairing::none;
  Plan other = plan;
  other.operation = Operation::broadcast;
  EXPECT_EQ(selector.predicted_seconds(other), 0) << "the model is of allreduces";
  other = plan;
  other.compression = Compression::topk;
  EXPECT_EQ(selector.predicted_seconds(other), 0);
  other = plan;
  other.reduction_order = ReductionOrder::fixed;
  EXPECT_EQ(selector.predicted_seconds(other), 0);
}

TEST(PairedBytes, EndSomewhere) {
  EXPECT_EQ(paired_bytes({50e-6, 0}, 4, 1).halving, kMostPaired);
  EXPECT_EQ(paired_bytes({50e-6, 40e-9}, 4, 1).halving,
            kMostPaired);  // bytes as by the ring, and fewer messages
  EXPECT_EQ(paired_bytes({50e-6, 40e-9}, 3, 1).halving, 0);
  EXPECT_EQ(paired_bytes({1, 0}, 2, 1).doubling, kMostPaired);
  EXPECT_EQ(paired_bytes({0, 40e-9}, 4, 1).doubling, 0);
  EXPECT_EQ(paired_bytes({50e-6, 40e-9}, 1, 1).doubling, 0);
}

Plan plan_of(std::int64_t bytes, Rank ranks) {
  Plan plan;
  plan.buffer_bytes = bytes;
  plan.members = std::make_shared<const RankSet>(0, ranks);
  return plan;
}

TEST(AlgorithmSelector, IsWhatTheSettingSays) {
  Config config;
  EXPECT_EQ(AlgorithmSelector("memory", config).pairing(plan_of(1, 4)), Pairing::none);  // nothing is known
  config.short_bytes = 1000;
  const AlgorithmSelector point("memory", config);
  EXPECT_EQ(point.pairing(plan_of(1000, 4)), Pairing::doubling);
  EXPECT_EQ(point.pairing(plan_of(1000, 3)), Pairing::doubling);
  EXPECT_EQ(point.pairing(plan_of(1001, 4)), Pairing::none);
  EXPECT_EQ(point.pairing(plan_of(1, 1)), Pairing::none);
  Plan plan = plan_of(1000, 4);
  plan.reduction_order = ReductionOrder::fixed;
  EXPECT_EQ(point.pairing(plan), Pairing::doubling);  // the order is that of the tree
  plan.members = std::make_shared<const RankSet>(0, 3);
  EXPECT_EQ(point.pairing(plan), Pairing::none);
  plan = plan_of(1000, 4);
  plan.reduce_op = ReduceOp::adasum;
  EXPECT_EQ(point.pairing(plan), Pairing::none);
  plan = plan_of(1000, 4);
  plan.operation = Operation::reducescatter;
  EXPECT_EQ(point.pairing(plan), Pairing::none);
}

TEST(AlgorithmSelector, IsForMediumOnesWhatTheirSettingSays) {
  Config config;
  config.short_bytes = 1000;
  config.medium_bytes = 5000;
  const AlgorithmSelector point("memory", config);
  EXPECT_EQ(point.pairing(plan_of(1000, 4)), Pairing::doubling);
  EXPECT_EQ(point.pairing(plan_of(1001, 4)), Pairing::halving);
  EXPECT_EQ(point.pairing(plan_of(5000, 8)), Pairing::halving);
  EXPECT_EQ(point.pairing(plan_of(5001, 4)), Pairing::none);
  EXPECT_EQ(point.pairing(plan_of(5000, 3)), Pairing::none);
  Plan plan = plan_of(5000, 4);
  plan.reduction_order = ReductionOrder::fixed;
  EXPECT_EQ(point.pairing(plan), Pairing::halving);
  plan.compression = Compression::bf16;  // half the bytes around a ring
  EXPECT_EQ(point.pairing(plan), Pairing::none);
}

// Each rank on a thread: the hosts are a, a, b, b.
std::vector<AlgorithmSelector> measured_selectors(const Config& rank_0, const Config& others) {
  constexpr Rank kRanks = 4;
  MemoryNetwork network(kRanks);
  std::vector<AlgorithmSelector> points(kRanks, AlgorithmSelector("memory", others));
  points[0] = AlgorithmSelector("memory", rank_0);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Link> link = network.link(rank);
      points[rank].measure(*link, rank, {"a", "a", "b", "b"}, [] {});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return points;
}

TEST(AlgorithmSelector, IsMeasuredByRankZero) {
  const std::vector<AlgorithmSelector> points = measured_selectors({}, {});
  EXPECT_EQ(points[0].pairing(plan_of(0, 4)), Pairing::doubling);
  EXPECT_EQ(points[0].pairing(plan_of(kMostPaired + 1, 4)), Pairing::none);
  for (const Rank rank : {1, 2, 3}) EXPECT_EQ(points[rank].pairing(plan_of(0, 4)), Pairing::none);
}

// Ranks whose settings differ do not wait for each other.
TEST(AlgorithmSelector, IsNotMeasuredWhereRankZeroKnowsIt) {
  Config knows;
  knows.short_bytes = 64;
  EXPECT_EQ(measured_selectors(knows, {})[0].pairing(plan_of(65, 4)), Pairing::none);
  EXPECT_EQ(measured_selectors({}, knows)[0].pairing(plan_of(0, 4)), Pairing::doubling);
}

TEST(AlgorithmSelector, NobodyWaitsForARankThatDoesNotAnswer) {
  MemoryNetwork network(2);
  const std::unique_ptr<Link> link = network.link(0);
  AlgorithmSelector point("memory", {});
  const Time begin = clock_now();
  point.measure(*link, 0, {"a", "b"}, [] {});
  EXPECT_LT(clock_now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(point.pairing(plan_of(0, 2)), Pairing::none);
}

TEST(AlgorithmSelector, IsWrittenToAFileAndReadFromIt) {
  const ScratchFolder folder;
  Config config;
  config.profile = (folder.path() / "profile").string();
  measured_selectors(config, {});
  const SavedCosts measured = read_costs(config.profile, "memory");
  EXPECT_TRUE(measured.status.ok());
  ASSERT_TRUE(measured.costs);
  EXPECT_GT(measured.costs->message, 0);
  ASSERT_TRUE(save_costs(config.profile, "tcp", {1, 1e-3}).ok());
  EXPECT_EQ(read_costs(config.profile, "memory").costs->message, measured.costs->message);

  ASSERT_TRUE(save_costs(config.profile, "memory", {50e-6, 40e-9}).ok());  // the last line counts
  const std::vector<AlgorithmSelector> points = measured_selectors(config, {});
  EXPECT_EQ(points[0].pairing(plan_of(1'990, 4)), Pairing::doubling);  // two share a card
  EXPECT_EQ(points[0].pairing(plan_of(2'000, 4)), Pairing::none);
}

TEST(SavedCosts, ThatCannotBeReadAreToldAndStay) {
  const ScratchFolder folder;
  const std::string path = (folder.path() / "profile").string();
  EXPECT_TRUE(read_costs(path, "tcp").status.ok());
  EXPECT_FALSE(read_costs(path, "tcp").costs);
  for (const std::string line :
       {"tcp", "tcp message_us=1", "tcp message_us=x byte_ns=1", "tcp message_us=-1 byte_ns=1",
        "tcp message_us=nan byte_ns=1", "tcp message_us=1 byte_ns=1e300", "tcp message_us=1 byte_ns=1 more",
        "mpi 1 2", "\x01\x02"}) {
    std::ofstream(path) << line << "\n";
    const SavedCosts read = read_costs(path, "tcp");
    EXPECT_FALSE(read.costs) << line;
    EXPECT_THAT(read.status.message, AllOf(HasSubstr(path), HasSubstr(line), HasSubstr("message_us=43.1")));
    Config config;
    config.profile = path;
    EXPECT_EQ(measured_selectors(config, {})[0].pairing(plan_of(0, 4)), Pairing::doubling);
    EXPECT_FALSE(read_costs(path, "tcp").status.ok());
  }
}

}  // namespace
}  // namespace rueda
