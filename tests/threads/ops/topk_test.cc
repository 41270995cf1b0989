// SPDX-License-Identifier: Apache-2.0
// Reductions of which only the largest elements travel: what comes is the same on all ranks, what stays away
// comes later, and few bytes move.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "ops/compression/topk_select.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/uneven_values.h"
#include "tests/support/sanitized.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Sizes = std::vector<Rank>;  // of hosts

Reduction topk(double share, ReduceOp op = ReduceOp::sum) {
  Reduction reduction{op};
  reduction.compression = Compression::topk;
  reduction.compression_share = share;
  return reduction;
}

// Purpose: ranks on hosts of these sizes; those of one rank each share no memory with others.
struct World {
  explicit World(const Sizes& hosts, std::int64_t chunk = 1 << 18)
      : ranks(std::accumulate(hosts.begin(), hosts.end(), Rank{0})), network(ranks, 8) {
    network.stand_on_hosts(hosts);
    config.ring_chunk = chunk;
  }
  void run(const std::function<void(Runtime&)>& body) { run_ranks_on(network, ranks, body, config); }

  const Rank ranks;
  MemoryNetwork network;
  Config config;
};

const Sizes kHostsOfTopk[] = {{1, 1}, {1, 1, 1}, {1, 1, 1, 1}, {2, 2}, {1, 2, 1}, {3, 1, 2}};

// Whole numbers, so that sums are exact in any order.
std::vector<float> whole_values(Rank rank, int step, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>((rank * 31 + step * 17 + i * 7) % 41 - 20));
  return values;
}

void add(std::vector<float>& to, const std::vector<float>& values) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += values[i];
}

// Purpose: the results of all ranks, which must be equal.
class Results {
 public:
  void add(const std::string& name, const std::vector<float>& values) {
    const std::lock_guard lock(mutex_);
    const auto [first, is_new] = first_.try_emplace(name, values);
    EXPECT_EQ(values, first->second) << name;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<float>> first_;
};

// All that goes in comes out, once: the results of some steps, and of as many with zeros as it takes.
void check_nothing_is_lost(World& world, std::int64_t count, double share) {
  Results results;
  world.run([&](Runtime& runtime) {
    std::vector<float> in(count, 0.0f), out(count, 0.0f);
    constexpr int kSteps = 5;
    bool whole = true;
    const int flushes = static_cast<int>(1.0 / share) + 1;
    for (int step = 0; step < kSteps + flushes; ++step) {
      std::vector<float> values(count, 0.0f), result(count);
      for (Rank rank = 0; step < kSteps && rank < world.ranks; ++rank) {
        const std::vector<float> brought = whole_values(rank, step, count);
        add(in, brought);
        if (rank == runtime.topology().rank) values = brought;
      }
      const std::vector<float> before = values;
      allreduce_async("x", view(values), view(result), topk(share), runtime).wait();
      EXPECT_EQ(values, before) << "the input has changed";
      results.add(fmt::format("step {}", step), result);
      add(out, result);
      if (step == kSteps - 1) whole = in == out;
    }
    ASSERT_EQ(in, out);
    if (share < 0.3 && count > 100) {
      EXPECT_FALSE(whole) << "all has travelled at once";
    }
  });
}

TEST(Topk, NothingIsLost) {
  for (const Sizes& hosts : kHostsOfTopk) {
    for (const std::int64_t count : {1, 7, 1000, sanitized(4'000, 20'000)}) {
      for (const std::int64_t chunk : {4096, 1 << 18}) {
        World world(hosts, chunk);
        SCOPED_TRACE(fmt::format("{} elements, {} ranks on {} hosts", count, world.ranks, hosts.size()));
        check_nothing_is_lost(world, count, count == 7 ? 0.5 : 0.1);
      }
    }
  }
}

// More than one run, whose ends are no whole ones.
TEST(Topk, NothingIsLostOfLongTensors) {
  for (const Sizes& hosts : {Sizes{1, 1}, Sizes{2, 2}}) {
    if (kSanitized && hosts.front() > 1) continue;
    World world(hosts);
    check_nothing_is_lost(world, 2 * kLongestRun + 333, 0.25);
  }
}

TEST(Topk, AShareOfOneIsExact) {
  for (const Sizes& hosts : kHostsOfTopk) {
    World world(hosts, 4096);
    Results results;
    world.run([&](Runtime& runtime) {
      for (int step = 0; step < 3; ++step) {
        std::vector<float> values = whole_values(runtime.topology().rank, step, 5000), sum(5000, 0.0f);
        for (Rank rank = 0; rank < world.ranks; ++rank) add(sum, whole_values(rank, step, 5000));
        for (float& value : sum) value *= 3;
        Reduction all = topk(1.0);
        all.prescale_factor = 0.5;
        all.postscale_factor = 6.0;
        allreduce_async("x", view(values), view(values), all, runtime).wait();
        EXPECT_EQ(values, sum);
        std::vector<float> uneven = own_values(runtime, 5000), averages = uneven;
        allreduce_async("uneven", view(uneven), view(uneven), topk(1.0, ReduceOp::average), runtime).wait();
        allreduce_async("averages", view(averages), view(averages), {}, runtime).wait();
        for (std::size_t i = 0; i < averages.size(); ++i) ASSERT_NEAR(uneven[i], averages[i], 1e-3) << i;
        results.add(fmt::format("step {}", step), uneven);
      }
    });
  }
}

// The mean of the results of one vector, reduced again and again, comes near the exact one as 1 / steps.
TEST(Topk, ComesToTheExactAverage) {
  for (const Sizes& hosts : {Sizes{1, 1, 1}, Sizes{2, 2}}) {
    World world(hosts);
    world.run([&](Runtime& runtime) {
      constexpr int kSteps = 400;
      constexpr std::int64_t kCount = 2000;
      std::vector<double> sum(kCount, 0.0);
      for (int step = 0; step < kSteps; ++step) {
        std::vector<float> values = own_values(runtime, kCount);
        allreduce_async("x", view(values), view(values), topk(0.02, ReduceOp::average), runtime).wait();
        for (std::int64_t i = 0; i < kCount; ++i) sum[i] += values[i];
      }
      double largest_error = 0, largest = 0;
      for (std::int64_t i = 0; i < kCount; ++i) {
        double exact = 0;
        for (Rank rank = 0; rank < world.ranks; ++rank) exact += number(rank, i) / world.ranks;
        largest_error = std::max(largest_error, std::abs(sum[i] / kSteps - exact));
        largest = std::max(largest, std::abs(exact));
      }
      EXPECT_LT(largest_error, largest * 0.1);
    });
  }
}

// The largest elements come at once.
TEST(Topk, SendsTheLargest) {
  World world({1, 1});
  world.run([&](Runtime& runtime) {
    std::vector<float> values(1000, 1.0f);
    values[static_cast<std::size_t>(runtime.topology().rank) * 500] = -50.0f;
    allreduce_async("x", view(values), view(values), topk(0.001), runtime).wait();
    std::vector<float> expected(1000, 0.0f);
    expected[0] = expected[500] = -50.0f;
    EXPECT_EQ(values, expected);
  });
}

// Bytes that ranks on these hosts move to reduce 100,000 elements.
std::uint64_t moved_bytes(const Sizes& hosts, const Reduction& reduction, DataType dtype = DataType::float32,
                          bool rows = false) {
  World world(hosts);
  world.run([&](Runtime& runtime) {
    std::vector<double> memory(100'000, 1.0);
    const TensorView tensor{memory.data(), dtype, {100'000}, {}};
    (rows ? reducescatter_async("x", tensor, reduction, runtime)
          : allreduce_async("x", tensor, tensor, reduction, runtime))
        .wait();
  });
  return world.network.moved_bytes();
}

TEST(Topk, MovesAShareOfTheBytes) {
  // 8 bytes an element, from each host to each other one.
  EXPECT_EQ(moved_bytes({1, 1, 1, 1}, topk(0.01)), 4 * 3 * 8 * 1000U);
  EXPECT_EQ(moved_bytes({1, 1}, topk(0.001)), 2 * 8 * 100U);
  // Two chunks, of 65,536 elements and of the rest; ranks of one host send once.
  EXPECT_EQ(moved_bytes({2, 2}, topk(0.01)), 2 * 8 * (656 + 345U));
  EXPECT_EQ(moved_bytes({3, 1, 2}, topk(0.01)), 3 * 2 * 8 * (656 + 345U));
}

TEST(Topk, IsOfSumsAndAveragesOfFloat32InAnyOrder) {
  const auto whole = [](const Reduction& reduction, DataType dtype = DataType::float32, bool rows = false) {
    Reduction plain = reduction;
    plain.compression = Compression::none;
    EXPECT_EQ(moved_bytes({1, 1, 1}, reduction, dtype, rows), moved_bytes({1, 1, 1}, plain, dtype, rows));
  };
  whole(topk(0.01), DataType::float64);
  whole(topk(0.01), DataType::float16);
  whole(topk(0.01), DataType::int32);
  whole(topk(0.01), DataType::float32, true);
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::product, ReduceOp::adasum})
    whole(topk(0.01, op));
  Reduction fixed = topk(0.01);
  fixed.order = ReductionOrder::fixed;
  whole(fixed);
}

TEST(Topk, ChangesNothingInsideAHost) {
  for (const Rank ranks : {1, 3}) {
    run_on_one_host(ranks, [](Runtime& runtime) {
      for (const std::int64_t count : {10, 50'000}) {
        std::vector<float> plain = own_values(runtime, count), compressed = plain;
        allreduce_async("plain", view(plain), view(plain), {}, runtime).wait();
        allreduce_async("topk", view(compressed), view(compressed), topk(0.01, ReduceOp::average), runtime)
            .wait();
        EXPECT_EQ(compressed, plain);
      }
    });
  }
}

// Each has a residual of its own, in any order; one of another size begins anew; strides do not matter.
TEST(Topk, NamesSizesAndStrides) {
  World world({2, 1}, 4096);
  world.run([&](Runtime& runtime) {
    std::vector<float> sums(60, 0.0f), ones(40, 0.0f);
    for (int step = 0; step < 8; ++step) {
      std::vector<float> wide(120, 1.0f), flat(40, 2.0f);
      const TensorView every_second{wide.data(), DataType::float32, {30, 2}, {4, 2}};
      std::vector<Handle> handles{allreduce_async("wide", every_second, every_second, topk(0.25), runtime),
                                  allreduce_async("flat", view(flat), view(flat), topk(0.25), runtime)};
      if (runtime.topology().rank == 1) std::swap(handles[0], handles[1]);
      for (const Handle& handle : handles) handle.wait();
      for (std::size_t i = 0; i < 60; ++i) {
        sums[i] += wide[2 * i];
        ASSERT_EQ(wide[2 * i + 1], 1.0f);
      }
      add(ones, flat);
    }
    // A quarter of equal ones a step, in turn: of 8 steps, 4 and 8 have come.
    EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0.0f) > 60 * 3 * 4, true);
    EXPECT_EQ(std::accumulate(ones.begin(), ones.end(), 0.0f) > 40 * 6 * 4, true);
    std::vector<float> other(41, 0.0f);
    allreduce_async("flat", view(other), view(other), topk(1.0), runtime).wait();
    EXPECT_EQ(other, std::vector<float>(41, 0.0f));
  });
}

// What has failed was not there: it is neither sent later nor lost twice.
TEST(Topk, AFailureLeavesTheResidual) {
  for (const Sizes& hosts : {Sizes{1, 1, 1}, Sizes{2, 1, 2}}) {
    World world(hosts, 4096);
    world.run([&](Runtime& runtime) {
      constexpr std::int64_t kCount = 9000;
      const Rank rank = runtime.topology().rank;
      std::vector<float> in(kCount, 0.0f), out(kCount, 0.0f);
      auto reduce = [&](std::vector<float> values) {
        const Status status =
            allreduce_async("x", view(values), view(values), topk(0.25), runtime).wait_status();
        if (status.ok()) add(out, values);
        return status;
      };
      for (Rank bad = 0; bad < world.ranks; ++bad) {
        EXPECT_TRUE(reduce(whole_values(rank, bad, kCount)).ok());
        for (Rank each = 0; each < world.ranks; ++each) add(in, whole_values(each, bad, kCount));
        if (rank == bad) world.network.take_memory_from(rank, 256);
        barrier_async(runtime).wait();
        const Status status = reduce(std::vector<float>(kCount, 1000.0f));
        EXPECT_FALSE(status.ok());
        EXPECT_THAT(status.message,
                    AllOf(HasSubstr("no memory for"), HasSubstr(fmt::format("rank {}", bad))));
        barrier_async(runtime).wait();
        world.network.take_memory_from(rank, std::numeric_limits<std::size_t>::max());
      }
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(reduce(std::vector<float>(kCount, 0.0f)).ok());
      ASSERT_EQ(in, out);
    });
  }
}

// A value that is not finite is seen by all, and is gone in the next step.
TEST(Topk, WhatIsNotFiniteIsSeenOnce) {
  for (const Sizes& hosts : {Sizes{1, 1}, Sizes{2, 2}}) {
    World world(hosts);
    world.run([&](Runtime& runtime) {
      std::vector<float> values(1000,
                                runtime.topology().rank == 1 ? std::numeric_limits<float>::infinity() : 1.0f);
      allreduce_async("x", view(values), view(values), topk(0.01), runtime).wait();
      EXPECT_TRUE(std::ranges::any_of(values, [](float value) { return !std::isfinite(value); }));
      std::vector<float> next(1000, 1.0f);
      allreduce_async("x", view(next), view(next), topk(1.0), runtime).wait();
      EXPECT_TRUE(std::ranges::all_of(next, [](float value) { return std::isfinite(value); }));
    });
  }
}

// Who has joined sends what it has kept back.
TEST(Topk, WhoHasJoinedGivesWhatItHas) {
  World world({1, 1});
  world.run([&](Runtime& runtime) {
    std::vector<float> sum(1000, 0.0f);
    auto reduce = [&](float value) {
      std::vector<float> values(1000, value);
      allreduce_async("x", view(values), view(values), topk(0.1), runtime).wait();
      add(sum, values);
    };
    reduce(1.0f);
    if (runtime.topology().rank == 0) {
      for (int i = 0; i < 9; ++i) reduce(0.0f);
      EXPECT_EQ(sum, std::vector<float>(1000, 2.0f));
    }
    join(runtime);
  });
}

TEST(Topk, IsMeasured) {
  for (const Sizes& hosts : {Sizes{1, 1, 1}, Sizes{2, 2}}) {
    World world(hosts, 4096);
    world.run([&](Runtime& runtime) {
      std::vector<float> values = own_values(runtime, 7000);
      Reduction measured = topk(0.1);
      measured.measure = true;
      const Handle handle = allreduce_async("x", view(values), view(values), measured, runtime);
      handle.wait();
      std::vector<double> share{handle.share_of_square_sum()};
      allreduce_async("share", view(share), view(share), {ReduceOp::sum}, runtime).wait();
      double exact = 0;
      for (const float value : values) exact += double{value} * value;
      EXPECT_GT(exact, 0.0);
      EXPECT_NEAR(share[0], exact, exact * 1e-12);
    });
  }
}

TEST(Topk, SharesMustBeTheSameOnAllRanks) {
  run_ranks(3, [](Runtime& runtime) {
    std::vector<float> values(10);
    const double share = runtime.topology().rank == 2 ? 0.25 : 0.01;
    try {
      allreduce_async("x", view(values), view(values), topk(share), runtime).wait();
      FAIL() << "it was reduced";
    } catch (const Mismatch& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'x'"), HasSubstr("compression share"), HasSubstr("0.01"),
                                      HasSubstr("0.25")));
    }
    for (const double bad : {0.0, -0.5, 1.5, std::nan("")}) {
      try {
        allreduce_async("x", view(values), view(values), topk(bad), runtime);
        FAIL() << bad << " was taken";
      } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(),
                    AllOf(HasSubstr("'x'"), HasSubstr(fmt::format("compression_share is {}", bad))));
      }
    }
  });
}

}  // namespace
}  // namespace rueda
