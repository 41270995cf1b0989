// SPDX-License-Identifier: Apache-2.0
// Sparse gradients of parameters on devices: gathered where ranks have few rows, else reduced dense.
#include <ATen/ATen.h>
#include <torch/optim/sgd.h>

#include "core/engine/runtime.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "tests/support/training/sparse_rows.h"
#include "tests/support/worlds/torch_device_world.h"

namespace rueda {
namespace {

using TorchDeviceSparse = TorchDeviceWorld;

at::Tensor table_on(at::Device device) {
  return make_parameter({kWords, 3}, 1).detach().to(device).requires_grad_();
}

TEST_F(TorchDeviceSparse, StaySparseWhereFewElementsAreThere) {
  const TorchBody body = [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor table = table_on(device.name());
    GradientReducer reducer({table}, by_density(), runtime);
    for (int step = 0; step < 3; ++step) {
      reducer.before_zero_grad();
      table.mutable_grad().reset();
      sparse_loss(table, rows_of(runtime.topology().rank)).backward();
      reducer.synchronize();
      ASSERT_EQ(table.grad().layout(), at::kSparse);
      EXPECT_TRUE(table.grad().is_cuda());
      EXPECT_EQ(table.grad()._nnz(), 5);  // 3, 7, and one of each rank
      EXPECT_LT(difference(table.grad().to_dense().cpu(), mean_gradient(3)), 1e-12);
    }
  };
  run_torch(3, body);
  run_torch_by_the_host(3, body);
}

TEST_F(TorchDeviceSparse, AreMadeDenseWhereMany) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor table = table_on(device.name());
    GradientReducer reducer({table}, by_density(), runtime);
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < 13; ++i) rows.push_back(i + 50 * runtime.topology().rank);
    sparse_loss(table, rows).backward();
    reducer.synchronize();
    ASSERT_EQ(table.grad().layout(), at::kStrided);
    std::vector<std::int64_t> others;
    for (const std::int64_t row : rows) others.push_back((row + 50) % kWords);
    EXPECT_LT(difference(table.grad().cpu(), (dense_gradient(rows) + dense_gradient(others)) / 2), 1e-12);
  });
}

TEST_F(TorchDeviceSparse, ByDefaultAreMadeDense) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor table = table_on(device.name());
    GradientReducer reducer({table}, {}, runtime);
    sparse_loss(table, rows_of(runtime.topology().rank)).backward();
    reducer.synchronize();
    ASSERT_EQ(table.grad().layout(), at::kStrided);
    EXPECT_LT(difference(table.grad().cpu(), mean_gradient(2)), 1e-12);
  });
}

// A rank that looked nothing up, several passes, a sum, a dense neighbour, and the norm of both.
TEST_F(TorchDeviceSparse, MissingPassesSumsAndNorms) {
  run_torch(3, [](Runtime& runtime, const FakeTorchDevice& device) {
    const Rank rank = runtime.topology().rank;
    const at::Tensor table = table_on(device.name()), bias = at::ones({4}, device.name()).requires_grad_();
    DistributedOptions options = by_density();
    options.op = ReduceOp::sum;
    options.backward_passes_per_step = 2;
    options.measure_norm = true;
    GradientReducer reducer({table, bias}, options, runtime);
    for (int pass = 0; pass < 2; ++pass) {
      at::Tensor loss = bias.sum();
      if (rank != 1) loss = loss + sparse_loss(table, {rank, 50 + pass});
      loss.backward();
    }
    at::Tensor expected = at::zeros({kWords, 3}, at::kDouble);
    for (const Rank each : {0, 2}) {
      for (int pass = 0; pass < 2; ++pass) expected += dense_gradient({each, 50 + pass}) / 2;
    }
    const double norm = std::sqrt(expected.square().sum().item<double>() + 4 * 9.0);
    EXPECT_NEAR(reducer.clip_grad_norm_(norm / 2), norm, 1e-5);
    ASSERT_EQ(table.grad().layout(), at::kSparse);
    EXPECT_LT(difference(table.grad().to_dense().cpu(), expected / 2), 1e-6);
    EXPECT_LT(difference(bias.grad().cpu(), at::full({4}, 1.5)), 1e-6);
  });
}

TEST_F(TorchDeviceSparse, ASgdTrainsAsWithDenseOnes) {
  for (const SyncSchedule& schedule : {SyncSchedule::every_step(), SyncSchedule::one_step_late()}) {
    run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
      const auto train = [&](const DistributedOptions& options) {
        const at::Tensor table = table_on(device.name());
        DistributedOptimizer<torch::optim::SGD> optimizer(std::vector{table}, torch::optim::SGDOptions(0.1),
                                                          options, runtime);
        for (std::int64_t step = 0; step < 4; ++step) {
          optimizer.zero_grad();
          sparse_loss(table, {step, step + runtime.topology().rank, 9}).backward();
          optimizer.step();
        }
        optimizer.flush();
        return table.detach().cpu().clone();
      };
      DistributedOptions dense, sparse = by_density();
      dense.schedule = sparse.schedule = schedule;
      EXPECT_LT(difference(train(sparse), train(dense)), 1e-12);
      EXPECT_GT(difference(train(sparse), table_on(at::kCPU)), 0.1);
    });
  }
}

}  // namespace
}  // namespace rueda
