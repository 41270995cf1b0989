// SPDX-License-Identifier: Apache-2.0
// DistributedOptimizer on ranks that are threads, against the plain optimizer on the whole batch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include <sstream>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::SGD;
using torch::optim::SGDOptions;

constexpr int kRows = 4;  // of each rank in each step

// Where SGD with momentum gets by `steps` of the whole batch of `ranks` ranks.
Regression plain_sgd(Rank ranks, int steps, double clip = 0.0) {
  Regression model;
  SGD optimizer(model.tensors(), SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    model.loss(make_batch(kRows * ranks * step, kRows * ranks)).backward();
    if (clip > 0.0) {
      for (const at::Tensor& parameter : model.tensors()) parameter.mutable_grad().clamp_(-clip, clip);
    }
    optimizer.step();
  }
  return model;
}

Batch batch_here(const Runtime& runtime, int step) {
  const Topology& topology = runtime.topology();
  return make_batch(kRows * (topology.size * step + topology.rank), kRows);
}

void expect_near(const Regression& actual, const Regression& expected, double tolerance) {
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_LT(difference(actual[i], expected[i]), tolerance) << actual.named[i].first;
}

TEST(DistributedOptimizer, TrainsAsOneRankOnTheWholeBatch) {
  const Regression expected = plain_sgd(3, 20);
  std::vector<Regression> models(3);
  run_on_one_host(3, [&](Runtime& runtime) {
    Regression& model = models[runtime.topology().rank];
    DistributedOptions options;
    options.named_parameters = model.named;
    DistributedOptimizer<SGD> optimizer(model.tensors(), SGDOptions(0.1).momentum(0.9), options, runtime);
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad(step % 2 == 0);  // both kinds
      model.loss(batch_here(runtime, step)).backward();
      optimizer.step();
    }
    EXPECT_GT(optimizer.wait_seconds(), 0.0);
  });
  for (const Regression& model : models) {
    expect_near(model, expected, 1e-12);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(model[i], models[0][i]));
  }
}

TEST(DistributedOptimizer, SinglePrecisionIsEqualOnAllRanks) {
  std::vector<Regression> models;
  for (int rank = 0; rank < 4; ++rank) models.emplace_back(1, at::kFloat);
  run_on_one_host(4, [&](Runtime& runtime) {
    Regression& model = models[runtime.topology().rank];
    DistributedOptimizer<AdamW> optimizer(model.tensors(), AdamWOptions(1e-2), {}, runtime);
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      model.loss(make_batch(kRows * (4 * step + runtime.topology().rank), kRows, at::kFloat)).backward();
      optimizer.step();
    }
  });
  for (const Regression& model : models) {
    for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(model[i], models[0][i]));
  }
  EXPECT_GT(difference(models[0][0], Regression(1, at::kFloat)[0]), 1e-3);
}

TEST(DistributedOptimizer, ClipsBetweenSynchronizeAndStep) {
  const Regression expected = plain_sgd(2, 10, 1e-2);
  run_on_one_host(2, [&](Runtime& runtime) {
    Regression model;
    DistributedOptimizer<SGD> optimizer(model.tensors(), SGDOptions(0.1).momentum(0.9), {}, runtime);
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      model.loss(batch_here(runtime, step)).backward();
      optimizer.synchronize();
      for (const at::Tensor& parameter : model.tensors()) parameter.mutable_grad().clamp_(-1e-2, 1e-2);
      optimizer.step();
    }
    expect_near(model, expected, 1e-12);
  });
}

TEST(DistributedOptimizer, RunsClosuresWithGradientsOn) {
  const Regression expected = plain_sgd(2, 5);
  run_on_one_host(2, [&](Runtime& runtime) {
    Regression model;
    DistributedOptimizer<SGD> optimizer(model.tensors(), SGDOptions(0.1).momentum(0.9), {}, runtime);
    torch::optim::Optimizer& base = optimizer;
    at::NoGradGuard no_grad;
    for (int step = 0; step < 5; ++step) {
      const at::Tensor loss = base.step([&] {
        optimizer.zero_grad();
        at::Tensor loss = model.loss(batch_here(runtime, step));
        loss.backward();
        return loss;
      });
      EXPECT_TRUE(loss.defined());
    }
    expect_near(model, expected, 1e-12);
  });
}

TEST(DistributedOptimizer, FollowsASchedulerAndItsArchiveContinuesIt) {
  Regression reference;
  SGD plain(reference.tensors(), SGDOptions(0.1).momentum(0.9));
  torch::optim::StepLR plain_schedule(plain, 2, 0.5);
  for (int step = 0; step < 6; ++step) {
    plain.zero_grad();
    reference.loss(make_batch(0, kRows)).backward();
    plain.step();
    plain_schedule.step();
  }
  run_on_one_host(2, [&](Runtime& runtime) {
    Regression model;
    std::stringstream archive;
    {
      DistributedOptimizer<SGD> optimizer(model.tensors(), SGDOptions(0.1).momentum(0.9), {}, runtime);
      torch::optim::StepLR schedule(optimizer, 2, 0.5);
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        model.loss(make_batch(0, kRows)).backward();
        optimizer.step();
        schedule.step();
      }
      EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.025);
      torch::save(optimizer, archive);
    }
    DistributedOptimizer<SGD> optimizer(model.tensors(), SGDOptions(7.0).momentum(0.9), {}, runtime);
    torch::load(optimizer, archive);
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.025);
    for (int step = 5; step < 6; ++step) {
      optimizer.zero_grad();
      model.loss(make_batch(0, kRows)).backward();
      optimizer.step();
    }
    expect_near(model, reference, 1e-12);
  });
}

TEST(DistributedOptimizer, AveragesOverPasses) {
  const Regression expected = plain_sgd(4, 5);
  run_on_one_host(2, [&](Runtime& runtime) {
    Regression model;
    DistributedOptions options;
    options.backward_passes_per_step = 2;
    DistributedOptimizer<SGD> optimizer(model.tensors(), SGDOptions(0.1).momentum(0.9), options, runtime);
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      for (int pass = 0; pass < 2; ++pass) {
        const int index = 4 * step + 2 * runtime.topology().rank + pass;
        model.loss(make_batch(kRows * index, kRows)).backward();
      }
      optimizer.step();
    }
    expect_near(model, expected, 1e-12);
  });
}

TEST(DistributedOptimizer, TwoOnOneModel) {
  const Regression expected = plain_sgd(2, 5);
  run_on_one_host(2, [&](Runtime& runtime) {
    Regression model;
    const auto tensors = model.tensors();
    const SGDOptions sgd = SGDOptions(0.1).momentum(0.9);
    DistributedOptimizer<SGD> lower(std::vector<at::Tensor>{tensors[0], tensors[1]}, sgd, {}, runtime);
    std::vector<torch::optim::OptimizerParamGroup> groups{{{tensors[2]}}, {{tensors[3]}}};
    DistributedOptimizer<SGD> upper(groups, sgd, {}, runtime);
    for (int step = 0; step < 5; ++step) {
      lower.zero_grad();
      upper.zero_grad();
      model.loss(batch_here(runtime, step)).backward();
      upper.step();
      lower.step();
    }
    expect_near(model, expected, 1e-12);
  });
}

TEST(DistributedOptimizer, RefusesMisuse) {
  run_on_one_host(2, [](Runtime& runtime) {
    const Regression model;
    DistributedOptimizer<SGD> optimizer(model.tensors(), SGDOptions(0.1), {}, runtime);
    model.loss(batch_here(runtime, 0)).backward();
    EXPECT_THROW(optimizer.zero_grad(), InvalidArgument);
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_FALSE(model[0].grad().defined());
    optimizer.add_param_group({{make_parameter({2}, 5)}});
    EXPECT_THROW(optimizer.step(), InvalidArgument);
  });
}

TEST(DistributedOptimizer, RefusesOtherParametersThanItWasMadeFor) {
  run_on_one_host(2, [](Runtime& runtime) {
    const Regression model;
    DistributedOptimizer<SGD> optimizer(model.tensors(), SGDOptions(0.1), {}, runtime);
    optimizer.param_groups()[0].params()[0] = make_parameter({2}, 5);  // as many as before
    EXPECT_THROW(optimizer.step(), InvalidArgument);
  });
}

TEST(DistributedOptimizer, TwoMayNotReduceOneGradientAtOnce) {
  run_on_one_host(2, [](Runtime& runtime) {
    const Regression model;
    DistributedOptimizer<SGD> first(model.tensors(), SGDOptions(0.1), {}, runtime);
    DistributedOptimizer<SGD> second(model.tensors(), SGDOptions(0.1), {}, runtime);
    EXPECT_THROW(model.loss(batch_here(runtime, 0)).backward(), InvalidArgument);
  });
}

TEST(DistributedOptimizer, ParametersThawedAfterItWasMadeAreAveragedOverThePasses) {
  run_on_one_host(2, [](Runtime& runtime) {
    constexpr int kPasses = 4;
    at::Tensor weight = make_parameter({3}, 5);
    weight.set_requires_grad(false);
    DistributedOptions options;
    options.backward_passes_per_step = kPasses;
    DistributedOptimizer<SGD> optimizer(std::vector<at::Tensor>{weight}, SGDOptions(0.1), options, runtime);
    weight.set_requires_grad(true);
    for (int pass = 0; pass < kPasses; ++pass) (weight * 4).sum().backward();
    optimizer.synchronize();
    EXPECT_LT(difference(weight.grad(), at::full_like(weight, 4)), 1e-12);
  });
}

TEST(DistributedOptimizer, AFrozenParametersOldGradientIsNotReducedAgain) {
  run_on_one_host(2, [](Runtime& runtime) {
    at::Tensor frozen = make_parameter({3}, 5), weight = make_parameter({3}, 6);
    frozen.mutable_grad() = at::full_like(frozen, 4);
    frozen.set_requires_grad(false);
    DistributedOptions options;
    options.op = ReduceOp::sum;
    DistributedOptimizer<SGD> optimizer(std::vector<at::Tensor>{frozen, weight}, SGDOptions(0.0), options,
                                        runtime);
    for (int step = 0; step < 2; ++step) {
      weight.sum().backward();
      optimizer.step();
      EXPECT_LT(difference(frozen.grad(), at::full_like(frozen, 4)), 1e-12);
      weight.mutable_grad().reset();
    }
  });
}

}  // namespace
}  // namespace rueda
