// SPDX-License-Identifier: Apache-2.0
// Gradients with blocks in shared memory, and rueda::empty.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/reducer/gradient_sync.h"
#include "rueda/torch/collectives/empty.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using Sgd = DistributedOptimizer<torch::optim::SGD>;

torch::optim::SGDOptions momentum_sgd() { return torch::optim::SGDOptions(0.05).momentum(0.9); }

std::vector<const void*> addresses_of(const Regression& model) {
  std::vector<const void*> addresses;
  for (const at::Tensor& parameter : model.tensors()) addresses.push_back(parameter.grad().const_data_ptr());
  return addresses;
}

void train_step(Sgd& optimizer, const Regression& model, Runtime& runtime, int step,
                bool set_to_none = true) {
  optimizer.zero_grad(set_to_none);
  const at::ScalarType type = model[0].scalar_type();
  model.loss(make_batch(step * 8 + 4 * runtime.topology().rank, 4, type)).backward();
  optimizer.step();
}

bool in_shared_memory(const at::Tensor& tensor, Runtime& runtime) {
  return runtime.tensor_memory()->contains(tensor.const_data_ptr(), tensor.nbytes());
}

TEST(GradientBuffers, GradientsLieInSharedMemoryFromTheThirdStepOnAtLatest) {
  run_on_one_host(2, [](Runtime& runtime) {
    const Regression model;
    Sgd optimizer(model.tensors(), momentum_sgd(), {}, runtime);
    for (int step = 0; step < 8; ++step) {
      train_step(optimizer, model, runtime, step, step % 2 == 0);
      for (const at::Tensor& parameter : model.tensors())
        EXPECT_TRUE(in_shared_memory(parameter.grad(), runtime) || step < 2) << step;
      const std::vector<const void*> addresses = addresses_of(model);
      EXPECT_EQ(std::set<const void*>(addresses.begin(), addresses.end()).size(), addresses.size());
    }
  });
}

// Nothing is copied: .grad is the tensor that autograd computed.
TEST(GradientBuffers, AutogradWritesThere) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({300, 200}, 1, at::kFloat);
    const at::Tensor input = at::ones({300, 200}, at::kFloat) * (1 + runtime.topology().rank);
    Sgd optimizer({weight}, torch::optim::SGDOptions(0.0), {}, runtime);
    const void* computed = nullptr;
    weight.register_hook([&](const at::Tensor& gradient) { computed = gradient.const_data_ptr(); });
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      (weight * input).sum().backward();
      optimizer.step();
      EXPECT_EQ(weight.grad().const_data_ptr(), computed);
      EXPECT_EQ(in_shared_memory(weight.grad(), runtime), step > 0);
      EXPECT_TRUE(at::equal(weight.grad(), at::full({300, 200}, 1.5, at::kFloat)));
    }
  });
}

TEST(GradientBuffers, TheFirstGradientsLieThereAfterPrepare) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({300, 200}, 1, at::kFloat);
    GradientSync sync({weight}, {}, runtime);
    sync.prepare();
    const void* computed = nullptr;
    weight.register_hook([&](const at::Tensor& gradient) { computed = gradient.const_data_ptr(); });
    (weight * (1 + runtime.topology().rank)).sum().backward();
    sync.synchronize();
    EXPECT_EQ(weight.grad().const_data_ptr(), computed);
    EXPECT_TRUE(in_shared_memory(weight.grad(), runtime));
    EXPECT_TRUE(at::equal(weight.grad(), at::full({300, 200}, 1.5, at::kFloat)));
  });
}

// A gradient of which no step is known, or that a later pass has changed, is the program's.
TEST(GradientBuffers, OnlyUsedGradientsAreReleased) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({300, 200}, 1, at::kFloat);
    const at::Tensor small = make_parameter({2}, 1, at::kFloat);
    GradientSync sync({weight, small}, {}, runtime);
    sync.prepare();
    const auto pass = [&] { ((weight * 2).sum() + small.sum()).backward(); };
    pass();
    sync.synchronize();
    sync.release_used_gradients();
    EXPECT_TRUE(weight.grad().defined());
    sync.begin_step();
    sync.release_used_gradients();  // of zero_grad(), without a step
    EXPECT_TRUE(weight.grad().defined());
    sync.note_use();
    {
      const at::Tensor held = weight.grad();
      sync.release_used_gradients();
      EXPECT_TRUE(weight.grad().is_same(held));
    }
    small.mutable_grad() = at::ones({2}, at::kFloat);  // memory of the program's own
    sync.release_used_gradients();
    EXPECT_FALSE(weight.grad().defined());
    EXPECT_TRUE(small.grad().defined());
    small.mutable_grad() = rueda::empty({2}, at::kFloat, runtime);  // the same, where ranks share it
    sync.release_used_gradients();
    EXPECT_TRUE(small.grad().defined());
    sync.pause(+1);
    pass();
    sync.pause(-1);
    sync.release_used_gradients();
    EXPECT_TRUE(at::equal(weight.grad(), at::full({300, 200}, 2, at::kFloat)));
  });
}

// Between hosts too, where a host has several ranks: a rank alone has nobody to reduce in place with.
TEST(GradientBuffers, OnSeveralHosts) {
  MemoryNetwork network(3, 8);
  network.stand_on_hosts({2, 1});
  run_ranks_on(network, 3, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({300, 200}, 1, at::kFloat);
    const at::Tensor input = at::ones({300, 200}, at::kFloat) * (1 + runtime.topology().rank);
    Sgd optimizer({weight}, torch::optim::SGDOptions(0.0), {}, runtime);
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      (weight * input).sum().backward();
      optimizer.step();
      EXPECT_EQ(in_shared_memory(weight.grad(), runtime), step > 0 && runtime.topology().rank < 2);
      EXPECT_TRUE(at::equal(weight.grad(), at::full({300, 200}, 2.0, at::kFloat)));
    }
  });
}

// What else a backward pass makes of a gradient's size may have its block: soon there are more.
TEST(GradientBuffers, GetsBlocksThatWereLacking) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({1000}, 1, at::kFloat);
    Sgd optimizer({weight}, torch::optim::SGDOptions(0.0), {}, runtime);
    at::Tensor kept;
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      at::Tensor twice = weight * 2;
      twice.register_hook([&](const at::Tensor& gradient) {
        if (step == 1) kept = gradient.contiguous();
      });
      twice.sum().backward();
      optimizer.step();
      EXPECT_EQ(in_shared_memory(weight.grad(), runtime), step > 1) << step;
      EXPECT_EQ(kept.defined() && in_shared_memory(kept, runtime), step > 0) << step;
    }
    EXPECT_TRUE(at::equal(kept, at::ones({1000}, at::kFloat)));
  });
}

// Autograd gives both parameters views of one gradient.
TEST(GradientBuffers, TwoGradientsThatShareMemoryAreReducedEachForItself) {
  for (const ReduceOp op : {ReduceOp::average, ReduceOp::sum}) {
    for (const std::optional<bool> overlap :
         {std::optional<bool>{}, std::optional(true), std::optional(false)}) {
      for (const ReductionOrder order : {ReductionOrder::any, ReductionOrder::fixed}) {
        for (const std::int64_t limit : {std::int64_t{0}, Config().window_limit}) {
          Config config;
          config.window_limit = limit;
          run_on_one_host(
              2,
              [&](Runtime& runtime) {
                const at::Tensor a = make_parameter({300, 200}, 1, at::kFloat);
                const at::Tensor b = make_parameter({200, 300}, 2, at::kFloat);
                DistributedOptions options;
                options.op = op;
                options.overlap = overlap;
                options.reduction_order = order;
                Sgd optimizer({a, b}, torch::optim::SGDOptions(0.0), options, runtime);
                for (int step = 0; step < 5; ++step) {
                  optimizer.zero_grad();
                  ((a.view({-1}) + b.view({-1})) * (1.0 + runtime.topology().rank)).sum().backward();
                  optimizer.step();
                  for (const at::Tensor& each : {a, b})
                    EXPECT_TRUE(at::equal(each.grad(), at::full_like(each, op == ReduceOp::sum ? 3 : 1.5)));
                }
              },
              config);
        }
      }
    }
  }
}

// A program may consume gradients while the pass runs: here those of `second`, which come first.
TEST(GradientBuffers, AGradientThatIsTakenAwayWhileThePassRunsIsZeros) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor first = make_parameter({10}, 1), second = make_parameter({10}, 2);
    DistributedOptions options;
    options.overlap = std::nullopt;
    Sgd optimizer({second, first}, torch::optim::SGDOptions(0.0), options, runtime);
    int taken = 0;
    first.register_hook([&](const at::Tensor&) {
      if (runtime.topology().rank != 0 || !second.grad().defined()) return;
      second.mutable_grad().reset();
      ++taken;
    });
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      const at::Tensor early = first * 1, late = second * 1;
      (early + late).sum().backward();
      optimizer.step();
      EXPECT_TRUE(at::equal(first.grad(), at::ones({10}, at::kDouble)));
      EXPECT_TRUE(at::equal(second.grad(), at::full({10}, 0.5, at::kDouble)));
    }
    if (runtime.topology().rank == 0) {
      EXPECT_EQ(taken, 3);
    }
  });
}

// The parameters after some steps, `way` of zeroing included, with and without a window.
std::vector<at::Tensor> trained(bool window, int way, int passes) {
  Config config;
  if (!window) config.window_limit = 0;
  std::vector<at::Tensor> result;
  run_on_one_host(
      2,
      [&](Runtime& runtime) {
        const Regression model(1, at::kFloat, Regression::kTooLargeForOneShots);
        DistributedOptions options;
        options.backward_passes_per_step = passes;
        Sgd optimizer(model.tensors(), momentum_sgd(), options, runtime);
        for (int step = 0; step < 12; ++step) {
          if (way < 2) optimizer.zero_grad(way == 0);
          for (int pass = 0; pass < passes; ++pass) {
            const int row = (step * passes + pass) * 8 + 4 * runtime.topology().rank;
            model.loss(make_batch(row, 4, at::kFloat)).backward();
          }
          optimizer.step();
        }
        if (runtime.topology().rank == 0) result = model.tensors();
      },
      config);
  return result;
}

TEST(GradientBuffers, ChangesNoBit) {
  for (int passes : {1, 3}) {
    for (int way : {0, 1, 2}) {  // set to none, zeroed, never zeroed
      const std::vector<at::Tensor> with = trained(true, way, passes), without = trained(false, way, passes);
      for (std::size_t i = 0; i < with.size(); ++i) {
        EXPECT_TRUE(at::equal(with[i], without[i])) << "parameter " << i << ", way " << way;
      }
      EXPECT_TRUE(at::isfinite(with[0]).all().item<bool>());
    }
  }
}

TEST(GradientBuffers, LeavesAGradientThatSomebodyKeeps) {
  run_on_one_host(2, [](Runtime& runtime) {
    const Regression model;
    Sgd optimizer(model.tensors(), momentum_sgd(), {}, runtime);
    for (int step = 0; step < 2; ++step) train_step(optimizer, model, runtime, step);
    const void* address = model[0].grad().const_data_ptr();
    at::Tensor kept = model[0].grad();
    const at::Tensor part = model[1].grad().narrow(0, 0, 1);
    const at::Tensor values = kept.clone(), value = part.clone();
    train_step(optimizer, model, runtime, 2);
    EXPECT_TRUE(at::equal(kept, values));
    EXPECT_TRUE(at::equal(part, value));
    EXPECT_NE(model[0].grad().const_data_ptr(), address);
    kept.reset();
    train_step(optimizer, model, runtime, 3);
    EXPECT_EQ(model[0].grad().const_data_ptr(), address);
    EXPECT_TRUE(at::equal(part, value));
  });
}

// What is still being reduced is nobody's .grad when its optimizer is gone.
TEST(GradientBuffers, AnOptimizerThatGoesTakesItsReductionsAlong) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({100'000}, 1, at::kFloat);
    for (int round = 0; round < 20; ++round) {
      {
        Sgd optimizer({weight}, momentum_sgd(), {}, runtime);
        for (int step = 0; step < 2; ++step) {
          optimizer.zero_grad();
          (weight * (1 + runtime.topology().rank)).sum().backward();
          optimizer.step();
        }
        optimizer.zero_grad();
        (weight * (1 + runtime.topology().rank)).sum().backward();
      }
      if (weight.grad().defined()) weight.mutable_grad().zero_();  // it was done
      (weight * 3).sum().backward();
      for (int look = 0; look < 20; ++look)
        ASSERT_TRUE(at::equal(weight.grad(), at::full({100'000}, 3, at::kFloat))) << round;
      weight.mutable_grad().reset();
    }
  });
}

TEST(GradientBuffers, FewerPassesAreScaledInFullPrecision) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({64}, 1, at::kBFloat16);
    DistributedOptions options;
    options.backward_passes_per_step = 4;
    Sgd optimizer({weight}, torch::optim::SGDOptions(0.0), options, runtime);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      for (int pass = 0; pass < 3; ++pass) (weight * 96).sum().backward();
      optimizer.step();
      EXPECT_TRUE(at::equal(weight.grad(), at::full({64}, 96, at::kBFloat16))) << weight.grad()[0];
    }
  });
}

TEST(GradientBuffers, FollowsAChangedType) {
  run_on_one_host(2, [](Runtime& runtime) {
    const Regression model, same(1, at::kFloat);
    Sgd optimizer(model.tensors(), torch::optim::SGDOptions(0.05), {}, runtime);
    for (int step = 0; step < 2; ++step) train_step(optimizer, model, runtime, step);
    for (at::Tensor& parameter : model.tensors()) {
      parameter.mutable_grad().reset();
      parameter.set_data(parameter.data().to(at::kFloat));
    }
    for (int step = 2; step < 5; ++step) train_step(optimizer, model, runtime, step);
    const std::vector<const void*> addresses = addresses_of(model);
    train_step(optimizer, model, runtime, 5);
    EXPECT_EQ(addresses_of(model), addresses);
    EXPECT_EQ(model[0].grad().scalar_type(), at::kFloat);
  });
}

TEST(GradientBuffers, WithoutMemoryGradientsAreOrdinary) {
  Config config;
  config.window_limit = 4096 * 2;  // the blocks need less than that, the second optimizer's do not fit
  run_on_one_host(
      2,
      [](Runtime& runtime) {
        const at::Tensor large = make_parameter({2000}, 1);
        Sgd optimizer({large}, momentum_sgd(), {}, runtime);
        for (int step = 0; step < 3; ++step) {
          optimizer.zero_grad();
          (large.sum() * (1.0 + runtime.topology().rank)).backward();
          optimizer.step();
          EXPECT_TRUE(at::equal(large.grad(), at::full({2000}, 1.5, at::kDouble)));
        }
      },
      config);
}

TEST(GradientBuffers, SparseTiedAndMissingGradientsHaveBlocks) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor table = make_parameter({5, 2}, 1), tied = make_parameter({3}, 2),
                     rare = make_parameter({4}, 3);
    Sgd optimizer({table, tied, rare}, torch::optim::SGDOptions(0.0), {}, runtime);
    std::vector<const void*> addresses;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      const at::Tensor rows = at::embedding(table, at::tensor({1, 3}), -1, false, true);
      at::Tensor loss = rows.sum() + (tied * tied).sum() + tied.sum();
      if (step % 2 == 0 && runtime.topology().rank == 0) loss = loss + rare.sum();
      loss.backward();
      optimizer.step();
      EXPECT_EQ(table.grad().sum().item<double>(), 4.0);
      EXPECT_TRUE(at::allclose(tied.grad(), 2 * tied.detach() + 1));
      if (step % 2 == 0) {
        EXPECT_TRUE(at::equal(rare.grad(), at::full({4}, 0.5, at::kDouble))) << step;
      }
      const std::vector<const void*> now{table.grad().const_data_ptr(), tied.grad().const_data_ptr()};
      if (step > 1) {
        EXPECT_EQ(now, addresses);
      }
      addresses = now;
    }
  });
}

TEST(Empty, IsZeroAndReducedInPlace) {
  at::Tensor kept;
  run_on_one_host(3, [&](Runtime& runtime) {
    at::Tensor tensor = rueda::empty({100, 70}, at::kInt, runtime);
    EXPECT_TRUE(at::equal(tensor, at::zeros({100, 70}, at::kInt)));
    const void* address = tensor.const_data_ptr();
    tensor.fill_(2 + runtime.topology().rank);
    allreduce_(tensor, "x", {ReduceOp::sum}, runtime);
    EXPECT_TRUE(at::equal(tensor, at::full({100, 70}, 9, at::kInt)));
    EXPECT_EQ(tensor.const_data_ptr(), address);
    allreduce_(tensor.narrow(1, 3, 9), "part", {ReduceOp::max}, runtime);
    if (runtime.topology().rank == 2) kept = tensor;
    EXPECT_EQ(rueda::empty({}, at::kDouble, runtime).sizes(), at::IntArrayRef({}));
    EXPECT_EQ(rueda::empty({3, 0}, at::kBool, runtime).numel(), 0);
    EXPECT_THROW(rueda::empty({-1}, at::kFloat, runtime), InvalidArgument);
    EXPECT_THROW(rueda::empty({1}, at::kComplexFloat, runtime), InvalidArgument);
    EXPECT_THROW(rueda::empty({std::int64_t{1} << 62, 8}, at::kFloat, runtime), InvalidArgument);
  });
  EXPECT_EQ(kept.sum().item<int>(), 9 * 7000);
}

}  // namespace
}  // namespace rueda
