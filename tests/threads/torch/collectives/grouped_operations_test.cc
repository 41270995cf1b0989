// SPDX-License-Identifier: Apache-2.0
// Operations on several tensors at once, on ranks that are threads.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "rueda/torch/collectives/grouped_operations.h"
#include "tests/support/training/regression.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

std::vector<at::Tensor> results_of(const std::vector<TensorHandle>& handles) {
  std::vector<at::Tensor> results;
  for (const TensorHandle& handle : handles) results.push_back(handle.wait());
  return results;
}

TEST(GroupedOperations, AllreduceKeepsTypesAndLayouts) {
  run_ranks(3, [](Runtime& runtime) {
    const double mine = runtime.topology().rank + 1.0;
    const std::vector<at::Tensor> tensors{at::full({4}, mine, at::kDouble),
                                          at::full({2, 3}, mine, at::kFloat).t(),
                                          at::full({}, mine, at::kLong)};
    const auto sums = results_of(grouped_allreduce_async(tensors, "sums", {ReduceOp::sum}, runtime));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(at::equal(sums[i], at::full_like(tensors[i], 6))) << i;
      EXPECT_EQ(sums[i].strides(), tensors[i].strides());
      EXPECT_EQ(tensors[i].sum().item<double>(), mine * static_cast<double>(tensors[i].numel()));
    }
  });
}

TEST(GroupedOperations, AllreduceInPlace) {
  run_ranks(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> tensors{at::full({4}, runtime.topology().rank, at::kDouble), at::ones({2})};
    const auto version = tensors[0]._version();
    const auto results = results_of(grouped_allreduce_async_(tensors, "in_place", {}, runtime));
    EXPECT_TRUE(results[0].is_same(tensors[0]));
    EXPECT_EQ(difference(tensors[0], at::full({4}, 0.5, at::kDouble)), 0.0);
    EXPECT_GT(tensors[0]._version(), version);
  });
}

TEST(GroupedOperations, AllgatherAndReducescatter) {
  run_ranks(2, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const std::vector<at::Tensor> rows{at::full({rank + 1, 2}, rank), at::full({1}, rank)};
    const auto gathered = results_of(grouped_allgather_async(rows, "gather", runtime));
    EXPECT_EQ(gathered[0].sizes(), at::IntArrayRef({3, 2}));
    EXPECT_EQ(difference(gathered[1], at::arange(2, at::kFloat)), 0.0);
    const std::vector<at::Tensor> wholes{at::ones({4, 2}), at::ones({3})};
    const auto parts = results_of(grouped_reducescatter_async(wholes, "scatter", {ReduceOp::sum}, runtime));
    EXPECT_EQ(difference(parts[0], at::full({2, 2}, 2.0)), 0.0);
    EXPECT_EQ(difference(parts[1], at::full({2 - rank}, 2.0)), 0.0);
  });
}

TEST(GroupedOperations, NothingIsSubmittedWhereOneTensorCannotBeMoved) {
  run_ranks(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> tensors{at::ones({2}), at::ones({2}, at::kComplexFloat)};
    EXPECT_THAT(words_of([&] { grouped_allreduce_async(tensors, "group", {}, runtime); }),
                testing::HasSubstr("group.1"));
    EXPECT_TRUE(grouped_allreduce_async({}, "group", {}, runtime).empty());
    const auto results = results_of(grouped_allreduce_async({tensors[0]}, "group", {}, runtime));
    EXPECT_EQ(difference(results[0], tensors[0]), 0.0);
  });
}

TEST(GroupedOperations, OfDifferentNumbersFail) {
  run_ranks(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> tensors(2 + static_cast<std::size_t>(runtime.topology().rank),
                                          at::ones({2}));
    const auto handles = grouped_allreduce_async(tensors, "uneven", {}, runtime);
    for (const TensorHandle& handle : handles) {
      EXPECT_THAT(
          handle.wait_status().message,
          testing::HasSubstr("allreduce 'uneven.0': the ranks differ in number of tensors in its group: "
                             "rank 0 asked for 2, rank 1 for 3"));
    }
  });
}

}  // namespace
}  // namespace rueda
