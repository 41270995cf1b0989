// SPDX-License-Identifier: Apache-2.0
// RAdam, LAMB and LARS, step by step against their formulas, written as plain loops over float64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/serialize.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <sstream>
#include <vector>

#include "rueda/torch/optimizers/lamb.h"
#include "rueda/torch/optimizers/lars.h"
#include "rueda/torch/optimizers/radam.h"
#include "tests/support/training/regression.h"

namespace rueda {
namespace {

using Values = std::vector<double>;

Values values_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  return {dense.const_data_ptr<double>(), dense.const_data_ptr<double>() + dense.numel()};
}

double norm(const Values& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// What a reference knows of one parameter.
struct Known {
  Values x;
  Values m, v;  // averages
};

// Runs `Optimizer` and `reference(known, gradient, step)` side by side over parameters of several shapes, one
// of them all zeros, and compares after every step.
template <class Optimizer, class Options>
void expect_steps(const Options& options, const std::function<void(Known&, const Values&, int)>& reference) {
  std::vector<at::Tensor> model{make_parameter({5, 7}, 1), make_parameter({11}, 2), make_parameter({}, 3),
                                at::zeros({4}, at::kDouble).requires_grad_(true),
                                make_parameter({3, 8}, 4).detach().t().requires_grad_(true)};
  std::vector<Known> known;
  for (const at::Tensor& parameter : model) {
    const Values x = values_of(parameter);
    known.push_back({x, Values(x.size()), Values(x.size())});
  }
  Optimizer optimizer(model, options);
  for (int step = 1; step <= 20; ++step) {
    for (std::size_t i = 0; i < model.size(); ++i) {
      const int seed = 10 * step + static_cast<int>(i);
      at::Tensor gradient = make_parameter(model[i].sizes(), seed).detach() + 0.3 * model[i].detach();
      if (i == 1 && step % 6 == 2) gradient.zero_();
      model[i].mutable_grad() = gradient;
      reference(known[i], values_of(gradient), step);
      EXPECT_EQ(values_of(gradient), values_of(model[i].grad()));
    }
    optimizer.step();
    for (std::size_t i = 0; i < model.size(); ++i) {
      const Values actual = values_of(model[i]);
      for (std::size_t k = 0; k < actual.size(); ++k)
        ASSERT_NEAR(actual[k], known[i].x[k], 1e-12) << "step " << step << ", parameter " << i;
    }
  }
}

TEST(RAdam, StepsAsThePaperSays) {
  for (const double decay : {0.0, 0.1}) {
    for (const bool decoupled : {false, true}) {
      constexpr double kLr = 0.03, kBeta1 = 0.9, kBeta2 = 0.95, kEps = 1e-8;
      const RAdamOptions options = RAdamOptions(kLr)
                                       .betas({kBeta1, kBeta2})
                                       .eps(kEps)
                                       .weight_decay(decay)
                                       .decoupled_weight_decay(decoupled);
      int held_back = 0, free = 0;
      expect_steps<RAdam>(options, [&](Known& known, const Values& gradient, int t) {
        const double b1 = std::pow(kBeta1, t), b2 = std::pow(kBeta2, t);
        const double longest = 2 / (1 - kBeta2) - 1, length = longest - 2 * t * b2 / (1 - b2);
        for (std::size_t k = 0; k < gradient.size(); ++k) {
          if (decoupled) known.x[k] *= 1 - kLr * decay;
          const double g = gradient[k] + (decoupled ? 0 : decay * known.x[k]);
          known.m[k] = kBeta1 * known.m[k] + (1 - kBeta1) * g;
          known.v[k] = kBeta2 * known.v[k] + (1 - kBeta2) * g * g;
          const double m = known.m[k] / (1 - b1);
          if (length > 5) {
            ++free;
            const double r =
                std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
            known.x[k] -= kLr * m * r * std::sqrt(1 - b2) / (std::sqrt(known.v[k]) + kEps);
          } else {
            ++held_back;
            known.x[k] -= kLr * m;
          }
        }
      });
      EXPECT_GT(held_back, 0);
      EXPECT_GT(free, 0);
    }
  }
}

// Made by torch.optim.RAdam of Python: p = [0.5, -1, 2] in float64, 12 steps with
// p.grad = 3 p - s * [1, 0.2, -0.7] for s = 1, 2, ..., lr=0.05, betas=(0.9, 0.99), weight_decay=0.1.
TEST(RAdam, StepsAsPythonsDoes) {
  const Values coupled{0.686591728667986, -0.20840570202717934, 0.3216507063747442};
  const Values decoupled{0.6638100346613128, -0.20322793004598474, 0.3162398427770332};
  for (const Values& expected : {coupled, decoupled}) {
    at::Tensor p = at::tensor({0.5, -1.0, 2.0}, at::kDouble).requires_grad_(true);
    RAdam optimizer({p}, RAdamOptions(0.05)
                             .betas({0.9, 0.99})
                             .weight_decay(0.1)
                             .decoupled_weight_decay(expected == decoupled));
    const at::Tensor slope = at::tensor({1.0, 0.2, -0.7}, at::kDouble);
    for (int step = 1; step <= 12; ++step) {
      p.mutable_grad() = 3 * p.detach() - step * slope;
      optimizer.step();
    }
    for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(values_of(p)[k], expected[k], 1e-14);
  }
}

TEST(Lamb, StepsAsThePaperSays) {
  for (const double decay : {0.0, 0.2}) {
    for (const bool always : {false, true}) {
      constexpr double kLr = 0.02, kBeta1 = 0.8, kBeta2 = 0.95, kEps = 1e-6;
      const LambOptions options =
          LambOptions(kLr).betas({kBeta1, kBeta2}).eps(kEps).weight_decay(decay).always_adapt(always);
      expect_steps<Lamb>(options, [&](Known& known, const Values& gradient, int t) {
        Values u(gradient.size());
        for (std::size_t k = 0; k < u.size(); ++k) {
          const double g = gradient[k];
          known.m[k] = kBeta1 * known.m[k] + (1 - kBeta1) * g;
          known.v[k] = kBeta2 * known.v[k] + (1 - kBeta2) * g * g;
          const double m = known.m[k] / (1 - std::pow(kBeta1, t)), v = known.v[k] / (1 - std::pow(kBeta2, t));
          u[k] = m / (std::sqrt(v) + kEps) + decay * known.x[k];
        }
        const double of_x = norm(known.x), of_u = norm(u);
        const bool adapts = (decay > 0 || always) && of_x > 0 && of_u > 0;
        for (std::size_t k = 0; k < u.size(); ++k) known.x[k] -= kLr * (adapts ? of_x / of_u : 1) * u[k];
      });
    }
  }
}

TEST(Lars, StepsAsItsDocumentationSays) {
  for (const double decay : {0.0, 0.05}) {
    for (const int kind : {0, 1, 2, 3}) {  // without momentum, with it, Nesterov's, always adapting
      constexpr double kLr = 2.0, kTrust = 0.02, kEps = 1e-9;
      const double momentum = kind == 0 ? 0.0 : 0.9;
      const bool nesterov = kind == 2, always = kind == 3;
      const LarsOptions options = LarsOptions(kLr)
                                      .momentum(momentum)
                                      .nesterov(nesterov)
                                      .weight_decay(decay)
                                      .trust_coefficient(kTrust)
                                      .eps(kEps)
                                      .always_adapt(always);
      expect_steps<Lars>(options, [&](Known& known, const Values& gradient, int) {
        const double of_x = norm(known.x), of_g = norm(gradient);
        const bool adapts = (decay > 0 || always) && of_x > 0 && of_g > 0;
        const double ratio = adapts ? kTrust * of_x / (of_g + decay * of_x + kEps) : 1;
        for (std::size_t k = 0; k < gradient.size(); ++k) {
          const double direction = ratio * (gradient[k] + decay * known.x[k]);
          known.m[k] = momentum * known.m[k] + direction;
          known.x[k] -= kLr * (nesterov ? direction + momentum * known.m[k] : known.m[k]);
        }
      });
    }
  }
}

// Half of the steps, saved, loaded into another, and the other half: as without a break.
template <class Optimizer, class Options>
void expect_resumes(const Options& options, const Options& others) {
  const auto run = [](Optimizer& optimizer, const Regression& model, int from, int to) {
    for (int step = from; step < to; ++step) {
      optimizer.zero_grad();
      model.loss(make_batch(4 * step, 4)).backward();
      optimizer.step();
    }
  };
  const Regression whole;
  Optimizer of_whole(whole.tensors(), options);
  run(of_whole, whole, 0, 12);

  Regression half;
  Optimizer first(half.tensors(), options);
  run(first, half, 0, 6);
  std::stringstream stream;
  torch::save(first, stream);
  Optimizer second(half.tensors(), others);
  torch::load(second, stream);
  run(second, half, 6, 12);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(half[i], whole[i])) << whole.named[i].first;
}

TEST(LargeBatchOptimizers, AreSavedAndLoadedWithOptionsAndState) {
  expect_resumes<RAdam>(
      RAdamOptions(0.02).betas({0.8, 0.9}).weight_decay(0.1).decoupled_weight_decay(true).eps(1e-5),
      RAdamOptions(1));
  expect_resumes<Lamb>(LambOptions(0.02).betas({0.8, 0.9}).weight_decay(0).always_adapt(true).eps(1e-5),
                       LambOptions(1));
  expect_resumes<Lars>(LarsOptions(0.5)
                           .momentum(0.7)
                           .nesterov(true)
                           .weight_decay(0)
                           .always_adapt(true)
                           .trust_coefficient(0.05)
                           .eps(1e-4),
                       LarsOptions(1));
}

TEST(LargeBatchOptimizers, TakeSixteenBits) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    // Squares of these do not fit into float16.
    at::Tensor p = at::full({512}, 200.0, at::TensorOptions(type)).requires_grad_(true);
    Lamb lamb({p}, LambOptions(0.01).weight_decay(0.1));
    p.mutable_grad() = at::full_like(p, 2.0);
    lamb.step();
    // u = 1 + 20 everywhere, so the step is lr * 200.
    EXPECT_NEAR(p[0].item<double>(), 198.0, 1.0);
  }
}

TEST(LargeBatchOptimizers, RefuseWhatCannotMeanAnything) {
  const std::vector<at::Tensor> one{make_parameter({2}, 1)};
  EXPECT_THROW(RAdam(one, RAdamOptions(-1)), c10::Error);
  EXPECT_THROW(RAdam(one, RAdamOptions().betas({1.0, 0.9})), c10::Error);
  EXPECT_THROW(Lamb(one, LambOptions().betas({0.9, -0.1})), c10::Error);
  EXPECT_THROW(Lamb(one, LambOptions().weight_decay(-1)), c10::Error);
  EXPECT_THROW(Lars(one, LarsOptions(1).momentum(0).nesterov(true)), c10::Error);
  EXPECT_THROW(Lars(one, LarsOptions(1).trust_coefficient(0)), c10::Error);
  Lars lars(one, LarsOptions(1));
  one[0].mutable_grad() = make_parameter({2}, 2).detach().to_sparse();
  EXPECT_THROW(lars.step(), c10::Error);
}

}  // namespace
}  // namespace rueda
