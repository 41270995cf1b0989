// SPDX-License-Identifier: Apache-2.0
// Sparse gradients: reduced dense, or gathered where ranks have few elements.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <numeric>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/training/regression.h"
#include "tests/support/training/sparse_rows.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

TEST(SparseGradients, StaySparseWhereFewElementsAreThere) {
  for (const bool overlap : {false, true}) {
    run_ranks(3, [&](Runtime& runtime) {
      const at::Tensor table = make_parameter({kWords, 3}, 1);
      DistributedOptions options = by_density();
      options.overlap = overlap;
      GradientReducer reducer({table}, options, runtime);
      for (int step = 0; step < 3; ++step) {
        reducer.before_zero_grad();
        table.mutable_grad().reset();
        sparse_loss(table, rows_of(runtime.topology().rank)).backward();
        reducer.synchronize();
        ASSERT_EQ(table.grad().layout(), at::kSparse);
        EXPECT_EQ(table.grad()._nnz(), 5);  // 3, 7, and one of each rank
        EXPECT_LT(difference(table.grad().to_dense(), mean_gradient(3)), 1e-12);
      }
    });
  }
}

TEST(SparseGradients, AreMadeDenseWhereMany) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor table = make_parameter({kWords, 3}, 1);
    GradientReducer reducer({table}, by_density(), runtime);
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < 13; ++i) rows.push_back(i + 50 * runtime.topology().rank);
    sparse_loss(table, rows).backward();
    reducer.synchronize();
    ASSERT_EQ(table.grad().layout(), at::kStrided);
    std::vector<std::int64_t> others;
    for (const std::int64_t row : rows) others.push_back((row + 50) % kWords);
    EXPECT_LT(difference(table.grad(), (dense_gradient(rows) + dense_gradient(others)) / 2), 1e-12);
  });
}

TEST(SparseGradients, AreMadeDenseWhereOneRankHasADenseOne) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor table = make_parameter({kWords, 3}, 1);
    GradientReducer reducer({table}, by_density(), runtime);
    runtime.topology().rank == 0 ? table.sum().backward() : sparse_loss(table, {4}).backward();
    reducer.synchronize();
    ASSERT_EQ(table.grad().layout(), at::kStrided);
    EXPECT_LT(difference(table.grad(), (dense_gradient({4}) + 1.0) / 2), 1e-12);
  });
}

TEST(SparseGradients, ByDefaultAreMadeDense) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor table = make_parameter({kWords, 3}, 1);
    GradientReducer reducer({table}, {}, runtime);
    sparse_loss(table, rows_of(runtime.topology().rank)).backward();
    reducer.synchronize();
    ASSERT_EQ(table.grad().layout(), at::kStrided);
    EXPECT_LT(difference(table.grad(), mean_gradient(2)), 1e-12);
  });
}

// A rank that looked nothing up, several passes, a sum, and a dense neighbour.
TEST(SparseGradients, MissingPassesAndSums) {
  run_on_one_host(3, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const at::Tensor table = make_parameter({kWords, 3}, 1), bias = make_parameter({4}, 2);
    DistributedOptions options = by_density();
    options.op = ReduceOp::sum;
    options.backward_passes_per_step = 2;
    GradientReducer reducer({table, bias}, options, runtime);
    for (int pass = 0; pass < 2; ++pass) {
      at::Tensor loss = bias.sum();
      if (rank != 1) loss = loss + sparse_loss(table, {rank, 50 + pass});
      loss.backward();
    }
    reducer.synchronize();
    at::Tensor expected = at::zeros({kWords, 3}, at::kDouble);
    for (const Rank each : {0, 2}) {
      for (int pass = 0; pass < 2; ++pass) expected += dense_gradient({each, 50 + pass}) / 2;
    }
    ASSERT_EQ(table.grad().layout(), at::kSparse);
    EXPECT_LT(difference(table.grad().to_dense(), expected), 1e-12);
    EXPECT_EQ(difference(bias.grad(), at::full({4}, 3.0, at::kDouble)), 0.0);
  });
}

TEST(SparseGradients, ASgdTrainsAsWithDenseOnes) {
  for (const SyncSchedule& schedule : {SyncSchedule::every_step(), SyncSchedule::one_step_late()}) {
    run_ranks(2, [&](Runtime& runtime) {
      const auto train = [&](const DistributedOptions& options) {
        const at::Tensor table = make_parameter({kWords, 3}, 1);
        DistributedOptimizer<torch::optim::SGD> optimizer(std::vector{table}, torch::optim::SGDOptions(0.1),
                                                          options, runtime);
        for (std::int64_t step = 0; step < 4; ++step) {
          optimizer.zero_grad();
          sparse_loss(table, {step, step + runtime.topology().rank, 9}).backward();
          optimizer.step();
        }
        optimizer.flush();
        return table.detach().clone();
      };
      DistributedOptions dense, sparse = by_density();
      dense.schedule = sparse.schedule = schedule;
      EXPECT_LT(difference(train(sparse), train(dense)), 1e-12);
    });
  }
}

// However many rows there are, whatever way they take: in a group, in a fixed order, where one rank has none.
TEST(SparseGradients, StaySparseWhereThatIsAsked) {
  for (const SparseGradients sparse : {SparseGradients::as_sparse, SparseGradients::travels_dense}) {
    for (const bool in_a_group : {false, true}) {
      for (const ReductionOrder order : {ReductionOrder::any, ReductionOrder::fixed}) {
        run_ranks(2, [&](Runtime& runtime) {
          const at::Tensor table = make_parameter({kWords, 3}, 1), bias = make_parameter({4}, 2);
          DistributedOptions options;
          options.sparse = sparse;
          options.reduction_order = order;
          if (in_a_group) options.groups = {{table, bias}};
          GradientReducer reducer({table, bias}, options, runtime);
          std::vector<std::int64_t> all(kWords);
          std::iota(all.begin(), all.end(), 0);
          const Rank rank = runtime.topology().rank;
          for (int step = 0; step < 3; ++step) {
            reducer.before_zero_grad();
            table.mutable_grad().reset();
            at::Tensor loss = bias.sum();
            if (rank == 0 || step != 1) loss = loss + sparse_loss(table, all);
            loss.backward();
            reducer.synchronize();
            ASSERT_EQ(table.grad().layout(), at::kSparse) << to_string(sparse) << ", step " << step;
            EXPECT_EQ(table.grad().sparse_dim(), 1);
            const at::Tensor expected = dense_gradient(all) / (step == 1 ? 2 : 1);
            EXPECT_LT(difference(table.grad().to_dense(), expected), 1e-12);
          }
        });
      }
    }
  }
}

TEST(SparseGradients, OfNoRowsAtAllStaySparse) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor table = make_parameter({kWords, 3}, 1);
    DistributedOptions options;
    options.sparse = SparseGradients::as_sparse;
    GradientReducer reducer({table}, options, runtime);
    sparse_loss(table, {}).backward();
    reducer.synchronize();
    ASSERT_EQ(table.grad().layout(), at::kSparse);
    EXPECT_EQ(table.grad()._nnz(), 0);
  });
}

TEST(SparseGradients, AreMadeDenseInAFixedOrder) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor table = make_parameter({kWords, 3}, 1);
    DistributedOptions options = by_density();
    options.reduction_order = ReductionOrder::fixed;
    GradientReducer reducer({table}, options, runtime);
    sparse_loss(table, rows_of(runtime.topology().rank)).backward();
    reducer.synchronize();
    EXPECT_EQ(table.grad().layout(), at::kStrided);
  });
}

TEST(SparseGradients, CannotBeShardedByDensity) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor table = make_parameter({kWords, 3}, 1);
    EXPECT_THROW(ShardedOptimizer<torch::optim::SGD>(std::vector{table}, torch::optim::SGDOptions(0.1),
                                                     by_density(), runtime),
                 InvalidArgument);
  });
}

}  // namespace
}  // namespace rueda
