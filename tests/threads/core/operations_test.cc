// SPDX-License-Identifier: Apache-2.0
// Every operation on 1 to 5 ranks that are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/conformance.h"
#include "tests/support/sanitized.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

// Small chunks, so that rings and streams are cut into many pieces; and the defaults.
class OperationsTest : public testing::TestWithParam<std::tuple<Rank, std::int64_t>> {
 protected:
  void run(const std::function<void(Runtime&)>& check) {
    Config config;
    config.ring_chunk = std::get<1>(GetParam());
    run_ranks(std::get<0>(GetParam()), check, config);
  }
};

TEST_P(OperationsTest, Allreduce) { run(check_allreduce); }
TEST_P(OperationsTest, Allgather) { run(check_allgather); }
TEST_P(OperationsTest, Broadcast) { run(check_broadcast); }
TEST_P(OperationsTest, Alltoall) { run(check_alltoall); }
TEST_P(OperationsTest, Messages) { run(check_messages); }
TEST_P(OperationsTest, Reduce) { run(check_reduce); }
TEST_P(OperationsTest, Gather) { run(check_gather); }
TEST_P(OperationsTest, Scatter) { run(check_scatter); }
TEST_P(OperationsTest, Reducescatter) { run(check_reducescatter); }
TEST_P(OperationsTest, Adasum) { run(check_adasum); }
TEST_P(OperationsTest, Strides) { run(check_strides); }
TEST_P(OperationsTest, Barrier) { run(check_barrier); }
TEST_P(OperationsTest, Mismatches) { run(check_mismatches); }
TEST_P(OperationsTest, NameInFlight) { run(check_name_in_flight); }

INSTANTIATE_TEST_SUITE_P(Ranks, OperationsTest,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5),
                                          testing::Values(std::int64_t{192}, std::int64_t{1} << 18)),
                         [](const auto& info) {
                           return "Ranks" + std::to_string(std::get<0>(info.param)) + "Chunk" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(FixedOrder, ConformsOverLinksAndInSharedMemory) {
  Config config;
  config.reduction_order = ReductionOrder::fixed;
  for (const Rank ranks : {1, 2, 3, 5}) {
    if (kSanitized && ranks == 5) continue;
    for (const std::size_t slots : {0, 8}) {
      config.ring_chunk = slots == 0 ? sanitized(1024, 192) : 1 << 18;
      run_ranks(
          ranks,
          [](Runtime& runtime) {
            check_allreduce(runtime);
            check_reducescatter(runtime);
            check_strides(runtime);
            check_mismatches(runtime);
          },
          config, slots);
    }
  }
}

// The same with shared memory for control messages, small allreduces and barriers.
class SharedMemoryTest : public testing::TestWithParam<std::tuple<Rank, std::size_t>> {
 protected:
  void run(const std::function<void(Runtime&)>& check) {
    run_ranks(std::get<0>(GetParam()), check, {}, std::get<1>(GetParam()));
  }
};

TEST_P(SharedMemoryTest, Allreduce) { run(check_allreduce); }
TEST_P(SharedMemoryTest, Allgather) { run(check_allgather); }
TEST_P(SharedMemoryTest, Broadcast) { run(check_broadcast); }
TEST_P(SharedMemoryTest, Alltoall) { run(check_alltoall); }
TEST_P(SharedMemoryTest, Messages) { run(check_messages); }
TEST_P(SharedMemoryTest, Reduce) { run(check_reduce); }
TEST_P(SharedMemoryTest, Gather) { run(check_gather); }
TEST_P(SharedMemoryTest, Scatter) { run(check_scatter); }
TEST_P(SharedMemoryTest, Reducescatter) { run(check_reducescatter); }
TEST_P(SharedMemoryTest, Adasum) { run(check_adasum); }
TEST_P(SharedMemoryTest, Strides) { run(check_strides); }
TEST_P(SharedMemoryTest, Barrier) { run(check_barrier); }
TEST_P(SharedMemoryTest, Mismatches) { run(check_mismatches); }
TEST_P(SharedMemoryTest, NameInFlight) { run(check_name_in_flight); }

INSTANTIATE_TEST_SUITE_P(Ranks, SharedMemoryTest,
                         testing::Combine(testing::Values(2, 3, 5), testing::Values(2, 8)),
                         [](const auto& info) {
                           return "Ranks" + std::to_string(std::get<0>(info.param)) + "Slots" +
                                  std::to_string(std::get<1>(info.param));
                         });

// Of 10 MiB and more, in odd numbers of rows.
TEST(SharedMemory, WritesOutputsThatNoCacheKeeps) {
  constexpr std::int64_t kRows = 900'001;
  auto value = [](Rank rank, std::int64_t i) { return static_cast<float>(rank * 1000 + i % 997); };
  auto values_of = [&value](Rank rank, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = value(rank, i);
    return values;
  };
  auto expect_equal = [](const TensorView& output, const std::vector<float>& expected) {
    ASSERT_EQ(output.elements(), static_cast<std::int64_t>(expected.size()));
    EXPECT_EQ(std::memcmp(output.data, expected.data(), static_cast<std::size_t>(output.bytes())), 0);
  };
  for (const Rank ranks : {2, 3}) {
    auto check = [&](Runtime& runtime) {
      const Rank own = runtime.topology().rank;
      // From a rank to another.
      auto rows = [ranks](Rank from, Rank to) { return 3 * kRows / ranks + 5 * from + to; };
      std::vector<float> gathered, exchanged;
      std::vector<std::int64_t> splits;
      for (Rank each = 0; each < ranks; ++each) {
        std::ranges::copy(values_of(each, rows(each, 0)), std::back_inserter(gathered));
        std::int64_t begin = 0;
        for (Rank to = 0; to < own; ++to) begin += rows(each, to);
        for (std::int64_t i = 0; i < rows(each, own); ++i) exchanged.push_back(value(each, begin + i));
        splits.push_back(rows(own, each));
      }
      std::vector<float> given = values_of(own, rows(own, 0));
      const Handle gather = allgather_async("gather", view(given), runtime);
      gather.wait();
      expect_equal(gather.output(), gathered);
      std::vector<float> all = values_of(own, std::accumulate(splits.begin(), splits.end(), 0LL));
      const Handle exchange = alltoall_async("exchange", view(all), splits, runtime);
      exchange.wait();
      expect_equal(exchange.output(), exchanged);
      std::vector<float> whole = values_of(own, 3 * kRows);
      std::vector<float> received(whole.size());
      broadcast_async("whole", view(whole), view(received), 1, runtime).wait();
      EXPECT_EQ(received, values_of(1, 3 * kRows));
    };
    run_ranks(ranks, check, {}, 8);
  }
}

// A reduce may share the Plan of an allreduce, and of a reduce to another root.
TEST(Roots, ReducesAreFusedWithAllreduces) {
  for (const std::size_t slots : {0, 8}) {
    auto body = [](Runtime& runtime) {
      const Rank own = runtime.topology().rank;
      for (int step = 0; step < 20; ++step) {
        std::vector<std::vector<float>> values(12, std::vector<float>(50, static_cast<float>(own + 1)));
        std::vector<Handle> handles;
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::string name = "t" + std::to_string(i);
          handles.push_back(
              i % 4 == 3 ? allreduce_async(name, view(values[i]), view(values[i]), {ReduceOp::sum}, runtime)
                         : reduce_async(name, view(values[i]), view(values[i]), static_cast<Rank>(i % 4),
                                        {ReduceOp::sum}, runtime));
        }
        for (const Handle& handle : handles) handle.wait();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const bool has_sum = i % 4 == 3 || static_cast<Rank>(i % 4) == own;
          const float expected = has_sum ? 6.0f : static_cast<float>(own + 1);
          ASSERT_EQ(values[i], std::vector<float>(50, expected)) << i;
        }
      }
    };
    run_ranks(3, body, {}, slots);
  }
}

TEST(Roots, AreRanksOfTheJobInAProcessSet) {
  run_ranks(3, [](Runtime& runtime) {
    const Rank own = runtime.topology().rank;
    RankSet ranks = RankSet::of(0);
    ranks.add(RankSet::of(2));
    const ProcessSet pair = add_process_set(ranks, runtime);
    if (own != 1) {
      const Scope scope(pair);
      std::vector<float> values(4, static_cast<float>(own + 1)), sums(4);
      reduce_async("sum", view(values), own == 2 ? view(sums) : TensorView(), 2, {ReduceOp::sum}, scope)
          .wait();
      EXPECT_EQ(sums, std::vector<float>(4, own == 2 ? 4.0f : 0.0f));
      const Handle gathered = gather_async("rows", view(values), 2, scope);
      gathered.wait();
      EXPECT_EQ(gathered.output().elements(), own == 2 ? 8 : 0);
      const Handle scattered =
          scatter_async("parts", view(std::span(values).first(own == 2 ? 4u : 0u)), 2, {}, scope);
      scattered.wait();
      ASSERT_EQ(scattered.output().elements(), 2);
      EXPECT_EQ(static_cast<const float*>(scattered.output().data)[1], 3.0f);
      EXPECT_THROW(gather_async("rows", view(values), 1, scope), InvalidArgument);
    }
    barrier_async(runtime).wait();
  });
}

// Rank 0 decides, and may have joined.
TEST(Messages, NeedNoOtherRank) {
  for (const std::size_t slots : {0, 8}) {
    auto body = [](Runtime& runtime) {
      const Rank own = runtime.topology().rank;
      std::vector<float> values(4, static_cast<float>(own));
      if (own > 0) {
        const Handle handle =
            own == 1 ? send_async("x", view(values), 2, runtime) : recv_async("x", view(values), 1, runtime);
        handle.wait();
        EXPECT_EQ(values, std::vector<float>(4, 1));
      }
      join(runtime);
    };
    run_ranks(3, body, {}, slots);
  }
}

TEST(Messages, WhatCannotBeIsNamed) {
  run_ranks(3, [](Runtime& runtime) {
    const Rank own = runtime.topology().rank;
    std::vector<float> values(4);
    for (const Rank nobody : {-1, own, 3}) {
      EXPECT_THROW(send_async("x", view(values), nobody, runtime), InvalidArgument);
      EXPECT_THROW(recv_async("x", view(values), nobody, runtime), InvalidArgument);
    }
    if (own < 2) {
      const Status status = (own == 0 ? send_async("x", view(values), 1, runtime)
                                      : recv_async("x", view(std::span(values).first(3)), 0, runtime))
                                .wait_status();
      EXPECT_EQ(status.code, StatusCode::mismatch);
      EXPECT_NE(status.message.find("message 'x' from rank 0 to rank 1"), std::string::npos)
          << status.message;
    }
    const ProcessSet both = add_process_set(RankSet(0, 2), runtime);  // beside the sets of messages
    if (own == 2) {
      EXPECT_THROW(send_async("x", view(values), 1, both), InvalidArgument);
    }
    remove_process_set(both, runtime);
  });
}

TEST(Roots, WhatARankCannotMeanIsRefused) {
  run_ranks(2, [](Runtime& runtime) {
    const Rank own = runtime.topology().rank;
    std::vector<float> values(4);
    auto expect = [&](auto submit, const std::string& words) {
      try {
        submit();
        ADD_FAILURE() << "accepted: " << words;
      } catch (const InvalidArgument& error) {
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      }
    };
    for (const Rank nobody : {-1, 2}) {
      const std::string words = "there is no root rank " + std::to_string(nobody);
      expect([&] { reduce_async("x", view(values), view(values), nobody, {}, runtime); }, words);
      expect([&] { gather_async("x", view(values), nobody, runtime); }, words);
      expect([&] { scatter_async("x", view(values), nobody, {}, runtime); }, words);
    }
    expect([&] { scatter_async("x", view(values), 1 - own, {}, runtime); },
           "has 4 rows to give, and only the root rank");
    const auto empty = view(std::span(values).first(0));
    expect([&] { scatter_async("x", empty, 1 - own, {2, 2}, runtime); }, "the root rank alone gives them");
    expect([&] { scatter_async("x", view(values), own, {2, 1}, runtime); }, "sum up to 3");
    expect([&] { scatter_async("x", view(std::span(values).first(3)), own, {}, runtime); },
           "3 rows do not divide equally among 2 ranks");
    expect([&] { reduce_async("x", view(values), {}, own, {}, runtime); }, "the output");
    expect([&] { reduce_async("x", view(values), view(values), 0, {ReduceOp::adasum}, runtime); },
           "adasum is of whole tensors");
    expect([&] { gather_async("x", {values.data(), DataType::float32, {}}, 0, runtime); }, "scalar");
  });
}

TEST(SharedMemory, EndsWhereTheHostEnds) {
  MemoryNetwork network(5, 8, 2);
  run_ranks_on(network, 5, [](Runtime& runtime) {
    EXPECT_EQ(runtime.topology().cross_size, runtime.topology().rank % 2 == 0 ? 3 : 2);
    check_allreduce(runtime);
    check_adasum(runtime);
    check_mismatches(runtime);
  });
}

TEST(SharedMemory, CarriesWhatIsSmallWhereEveryRankHasIt) {
  for (const bool one_rank_has_none : {false, true}) {
    MemoryNetwork network(3, 8);
    auto body = [](Runtime& runtime) {
      for (int i = 0; i < 300; ++i) {
        std::vector<float> values(1 + i, static_cast<float>(runtime.topology().rank));
        allreduce_async("x", view(values), view(values), {ReduceOp::sum}, runtime).wait();
        ASSERT_EQ(values, std::vector<float>(1 + i, 3.0f));
        if (i % 10 == 0) barrier_async(runtime).wait();
      }
    };
    run_ranks_on(network, 3, body, [&](Rank rank) {
      Config config;
      config.shm = !(one_rank_has_none && rank == 1);
      return config;
    });
    EXPECT_EQ(network.moved_bytes() > 0, one_rank_has_none);
  }
}

}  // namespace
}  // namespace rueda
