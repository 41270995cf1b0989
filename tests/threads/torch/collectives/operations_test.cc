// SPDX-License-Identifier: Apache-2.0
// Operations on tensors, parameters and optimizer state, on ranks that are threads.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "rueda/torch/collectives/operations.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::HasSubstr;

TEST(TorchOperations, AllreduceKeepsLayoutAndInput) {
  run_ranks(3, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const at::Tensor tensor = (at::arange(12, at::kFloat).reshape({3, 4}) + rank).t();
    const at::Tensor result = allreduce(tensor, "average", {}, runtime);
    EXPECT_EQ(difference(result, at::arange(12, at::kFloat).reshape({3, 4}).t() + 1), 0.0);
    EXPECT_EQ(result.strides(), tensor.strides());
    EXPECT_EQ(tensor[0][0].item<float>(), static_cast<float>(rank));
  });
}

TEST(TorchOperations, AllreduceInPlaceScales) {
  run_ranks(2, [](Runtime& runtime) {
    at::Tensor tensor = at::full({2, 2}, runtime.topology().rank + 1.0, at::kDouble);
    allreduce_(tensor, "sum", {ReduceOp::sum, 2.0, 0.5}, runtime);
    EXPECT_EQ(difference(tensor, at::full({2, 2}, 3.0, at::kDouble)), 0.0);
    at::Tensor scalar = at::scalar_tensor(runtime.topology().rank, at::kLong);
    allreduce_(scalar, "max", {ReduceOp::max}, runtime);
    EXPECT_EQ(scalar.item<std::int64_t>(), 1);
  });
}

TEST(TorchOperations, RanksMayDifferInStrides) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor values = at::arange(24, at::kFloat).reshape({1, 2, 3, 4});
    at::Tensor mine =
        runtime.topology().rank == 0 ? values.clone() : values.contiguous(at::MemoryFormat::ChannelsLast);
    allreduce_(mine, "average", {}, runtime);
    EXPECT_EQ(difference(mine, values), 0.0);
  });
}

TEST(TorchOperations, AllgatherOfDifferentRows) {
  run_ranks(3, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const at::Tensor result = allgather(at::full({rank, 2}, rank, at::kInt), "gather", runtime);
    EXPECT_TRUE(at::equal(result, at::tensor({1, 1, 2, 2, 2, 2}, at::kInt).reshape({3, 2})));
  });
}

TEST(TorchOperations, Broadcast) {
  run_ranks(3, [](Runtime& runtime) {
    const at::Tensor mine = at::full({5}, runtime.topology().rank, at::kShort);
    EXPECT_TRUE(at::equal(broadcast(mine, 2, "out", runtime), at::full({5}, 2, at::kShort)));
    EXPECT_EQ(mine[0].item<int>(), runtime.topology().rank);
    broadcast_(mine, 1, "in", runtime);
    EXPECT_TRUE(at::equal(mine, at::full({5}, 1, at::kShort)));
  });
}

TEST(TorchOperations, AlltoallTellsWhatCame) {
  run_ranks(2, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const at::Tensor rows = at::arange(3, at::kLong) + 10 * rank;
    const auto splits = rank == 0 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{3, 0};
    const AlltoallResult result = alltoall(rows, splits, "exchange", runtime);
    EXPECT_TRUE(at::equal(
        result.output, rank == 0 ? at::tensor({0, 10, 11, 12}, at::kLong) : at::tensor({1, 2}, at::kLong)));
    EXPECT_EQ(result.received_splits,
              rank == 0 ? (std::vector<std::int64_t>{1, 3}) : (std::vector<std::int64_t>{2, 0}));
  });
}

TEST(TorchOperations, WithARoot) {
  run_ranks(3, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const at::Tensor mine = at::full({2, 3}, rank + 1, at::kDouble);
    const at::Tensor sum = reduce(mine.t(), 1, "sum", {ReduceOp::sum}, runtime);
    EXPECT_EQ(sum.defined(), rank == 1);
    if (rank == 1) {
      EXPECT_TRUE(at::equal(sum, at::full({3, 2}, 6, at::kDouble)));
      EXPECT_EQ(sum.strides(), mine.t().strides());
    }
    const auto version = mine._version();
    reduce_(mine, 2, "in place", {ReduceOp::max}, runtime);
    EXPECT_TRUE(at::equal(mine, at::full({2, 3}, rank + 1, at::kDouble)));  // the largest is the root's own
    EXPECT_EQ(mine._version() > version, rank == 2);

    const at::Tensor rows = gather(at::full({rank, 2}, rank, at::kLong), 0, "rows", runtime);
    EXPECT_TRUE(at::equal(rows, rank == 0 ? at::tensor({1, 1, 2, 2, 2, 2}, at::kLong).view({3, 2})
                                          : at::empty({0, 2}, at::kLong)));
    const at::Tensor all = rank == 2 ? at::arange(6, at::kInt) : at::empty({0}, at::kInt);
    const auto splits = rank == 2 ? std::vector<std::int64_t>{3, 0, 3} : std::vector<std::int64_t>{};
    const at::Tensor part = scatter(all, 2, splits, "parts", runtime);
    EXPECT_TRUE(at::equal(part, rank == 0   ? at::tensor({0, 1, 2}, at::kInt)
                                : rank == 1 ? at::empty({0}, at::kInt)
                                            : at::tensor({3, 4, 5}, at::kInt)));
  });
}

TEST(TorchOperations, ReducescatterAndBarrier) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor share = reducescatter(at::arange(3, at::kDouble), "share", {ReduceOp::sum}, runtime);
    EXPECT_EQ(difference(share, runtime.topology().rank == 0 ? at::tensor({0.0, 2.0}, at::kDouble)
                                                             : at::tensor({4.0}, at::kDouble)),
              0.0);
    barrier(runtime);
  });
}

TEST(TorchOperations, DroppedHandlesFinish) {
  run_ranks(2, [](Runtime& runtime) {
    for (int i = 0; i < 20; ++i)
      allreduce_async(at::ones({1000}), "dropped." + std::to_string(i), {}, runtime);
    EXPECT_EQ(difference(allreduce(at::ones({3}), "last", {}, runtime), at::ones({3})), 0.0);
  });
}

TEST(TorchOperations, ErrorsAreThrownOnEveryRankAndTheNextWorks) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor tensor = at::ones({2 + runtime.topology().rank});
    EXPECT_THROW(allreduce(tensor, "differs", {}, runtime), Mismatch);
    EXPECT_THROW(allreduce(at::ones({2}).to_sparse(), "sparse", {}, runtime), InvalidArgument);
    EXPECT_EQ(allreduce(at::ones({2}), "differs", {}, runtime)[0].item<float>(), 1.0F);
  });
}

TEST(Agreement, NamesTheFirstDifferenceAndWhoHasIt) {
  std::mutex mutex;
  std::vector<std::string> words;
  run_ranks(4, [&](Runtime& runtime) {
    const std::string second = runtime.topology().rank == 2 ? "'b' float64 [3]" : "'b' float32 [3]";
    std::vector<std::string> lines{"'a' float32 [2]", second};
    check_agreement("first", "parameters", {lines[0]}, runtime);
    try {
      check_agreement("second", "parameters", lines, runtime);
      ADD_FAILURE() << "no exception";
    } catch (const Mismatch& error) {
      std::lock_guard lock(mutex);
      words.emplace_back(error.what());
    }
    if (runtime.topology().rank == 1) lines.clear();
    EXPECT_THROW(check_agreement("third", "parameters", lines, runtime), Mismatch);
  });
  ASSERT_EQ(words.size(), 4U);
  for (const std::string& each : words) EXPECT_EQ(each, words.front());
  EXPECT_THAT(words.front(), HasSubstr("rank 2 has 'b' float64 [3]"));
  EXPECT_THAT(words.front(), HasSubstr("ranks 0-1, 3 have 'b' float32 [3]"));
}

}  // namespace
}  // namespace rueda
