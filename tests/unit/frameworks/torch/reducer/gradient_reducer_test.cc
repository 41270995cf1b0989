// SPDX-License-Identifier: Apache-2.0
// Hooks, steps and misuse of one rank's reducer.
#include "rueda/torch/reducer/gradient_reducer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/autograd/custom_function.h>
#include <limits>

#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Runs `test` on the Runtime of a job of one rank.
void alone(const std::function<void(Runtime&)>& test) { run_ranks(1, test); }

at::Tensor constant(at::IntArrayRef sizes, double value) { return at::full(sizes, value, at::kDouble); }

TEST(GradientReducer, ALaterBackwardIsRefusedBeforeItChangesAnything) {
  alone([](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    DistributedOptions options;
    options.named_parameters = {{"layer.weight", weight}};
    GradientReducer reducer({weight}, options, runtime);
    weight.sum().backward();
    const auto again = [&] { weight.sum().backward(); };
    EXPECT_THAT(again,
                ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("rank 0"), HasSubstr("'layer.weight'"),
                                                     HasSubstr("backward_passes_per_step"),
                                                     HasSubstr("step()"), HasSubstr("non-reentrant"))));
    reducer.before_step();
    EXPECT_EQ(difference(weight.grad(), constant({3}, 1.0)), 0.0);
    again();  // belongs to the next step
    reducer.before_step();
    EXPECT_EQ(difference(weight.grad(), constant({3}, 2.0)), 0.0);
  });
}

TEST(GradientReducer, AStepWithoutABackwardPassIsTold) {
  alone([](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    GradientReducer reducer({weight}, {}, runtime);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(reducer.before_step());
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("rank 0: step() with no gradient of any parameter on any rank: run backward()"));
    EXPECT_FALSE(weight.grad().defined());
  });
}

TEST(GradientReducer, TheSameWithoutOverlap) {
  alone([](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    DistributedOptions options;
    options.overlap = false;
    GradientReducer reducer({weight}, options, runtime);
    weight.sum().backward();
    EXPECT_THROW(weight.sum().backward(), InvalidArgument);
    reducer.before_zero_grad();  // nothing was submitted: dropped
    weight.sum().backward();
    reducer.synchronize();
  });
}

TEST(GradientReducer, ZeroGradIsRefusedWhileReducing) {
  alone([](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    GradientReducer reducer({weight}, {}, runtime);
    reducer.before_zero_grad();
    weight.sum().backward();
    EXPECT_THAT([&] { reducer.before_zero_grad(); },
                ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("zero_grad()"), HasSubstr("'parameter.0'"))));
    reducer.synchronize();
    reducer.before_zero_grad();
  });
}

TEST(GradientReducer, SkipsOnlyWhatIsNotReducing) {
  alone([](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    GradientReducer reducer({weight}, {}, runtime);
    weight.sum().backward();
    {
      const auto skip = reducer.skip_synchronize();
      EXPECT_THROW(reducer.before_step(), InvalidArgument);
      reducer.synchronize();
      const double waited = reducer.wait_seconds();
      reducer.before_step();
      EXPECT_EQ(reducer.wait_seconds(), waited);
    }
    reducer.before_step();
    EXPECT_GT(reducer.wait_seconds(), 0.0);
  });
}

TEST(GradientReducer, AttachesAgainWhenAutogradReplacedItsNode) {
  alone([](Runtime& runtime) {
    at::Tensor weight = make_parameter({3}, 1, at::kFloat);
    GradientReducer reducer({weight}, {}, runtime);
    weight.set_data(weight.detach().to(at::kDouble));  // what Module::to does
    weight.sum().backward();                           // not seen
    reducer.before_step();
    EXPECT_EQ(difference(weight.grad(), constant({3}, 1.0)), 0.0);
    weight.sum().backward();
    EXPECT_THROW(weight.sum().backward(), InvalidArgument);  // seen
    reducer.before_step();
  });
}

TEST(GradientReducer, LostPassesCountAsAllOfThem) {
  alone([](Runtime& runtime) {
    at::Tensor weight = make_parameter({3}, 1, at::kFloat);
    DistributedOptions options;
    options.backward_passes_per_step = 4;
    GradientReducer reducer({weight}, options, runtime);
    weight.set_data(weight.detach().to(at::kDouble));
    for (int pass = 0; pass < 4; ++pass) weight.sum().backward();
    reducer.before_step();
    EXPECT_EQ(difference(weight.grad(), constant({3}, 1.0)), 0.0);
  });
}

TEST(GradientReducer, TakesItsHooksAway) {
  alone([](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    { GradientReducer reducer({weight}, {}, runtime); }
    weight.sum().backward();
    weight.sum().backward();
    EXPECT_EQ(difference(weight.grad(), constant({3}, 2.0)), 0.0);
  });
}

// A function that says nothing about its input's gradient.
struct Silent : torch::autograd::Function<Silent> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& input) {
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list) {
    return {at::Tensor()};
  }
};

TEST(GradientReducer, AnUndefinedGradientIsNone) {
  alone([](Runtime& runtime) {
    const std::vector<at::Tensor> weights{make_parameter({3}, 1), make_parameter({2}, 2)};
    GradientReducer reducer(weights, {}, runtime);
    (Silent::apply(weights[0]).sum() + weights[1].sum()).backward();
    reducer.before_step();
    EXPECT_FALSE(weights[0].grad().defined());
    EXPECT_TRUE(weights[1].grad().defined());
  });
}

TEST(GradientReducer, AGradientPenaltyTakesTwoPasses) {
  alone([](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    const at::Tensor plain = make_parameter({3}, 1);
    DistributedOptions options;
    options.backward_passes_per_step = 2;
    options.op = ReduceOp::sum;
    GradientReducer reducer({weight}, options, runtime);
    for (const at::Tensor& tensor : {weight, plain}) {
      tensor.pow(3).sum().backward({}, true, true);
      tensor.grad().pow(2).sum().backward();
    }
    reducer.synchronize();
    EXPECT_LT(difference(weight.grad(), plain.grad().detach() / 2), 1e-12);
  });
}

TEST(GradientReducer, AReplacedGradientIsPutBackReduced) {
  alone([](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    GradientReducer reducer({weight}, {}, runtime);
    weight.sum().backward();
    weight.mutable_grad().reset();  // behind our back
    reducer.synchronize();
    EXPECT_EQ(difference(weight.grad(), constant({3}, 1.0)), 0.0);
  });
}

TEST(GradientReducer, AFailingBackwardIsNoPass) {
  alone([](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    DistributedOptions options;
    options.backward_passes_per_step = 2;
    GradientReducer reducer({weight}, options, runtime);
    const at::Tensor loss = weight.pow(2).sum();
    loss.backward();
    EXPECT_THROW(loss.backward(), std::exception);  // its graph is gone
    weight.sum().backward();
    reducer.synchronize();
    EXPECT_LT(difference(weight.grad(), weight + 0.5), 1e-12);
  });
}

TEST(GradientReducer, RefusesBadOptions) {
  alone([](Runtime& runtime) {
    const std::vector<at::Tensor> weights{make_parameter({3}, 1), make_parameter({2}, 2)};
    const at::Tensor stranger = make_parameter({2}, 3);
    const auto refusal = [&](DistributedOptions options) {
      return [&, options] { GradientReducer reducer(weights, options, runtime); };
    };
    const auto says = [](const char* words) { return ThrowsMessage<InvalidArgument>(HasSubstr(words)); };
    DistributedOptions options;
    options.named_parameters = {{"a", weights[0]}, {"a", weights[1]}};
    EXPECT_THAT(refusal(options), says("'a' twice"));
    options.named_parameters = {{"a", weights[0]}, {"stranger", stranger}};
    EXPECT_THAT(refusal(options), says("'stranger', which is no parameter"));
    options.named_parameters = {{"tied", weights[0]}, {"tied again", weights[0]}};
    EXPECT_NO_THROW(refusal(options)());
    options.op = ReduceOp::max;
    EXPECT_THAT(refusal(options), says("max"));
    options.op = ReduceOp::average;
    options.backward_passes_per_step = 0;
    EXPECT_THAT(refusal(options), says("backward_passes_per_step is 0"));
    options = {};
    for (const double factor : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
      options.gradient_predivide_factor = factor;
      EXPECT_THAT(refusal(options), says("gradient_predivide_factor is"));
    }
    options.gradient_predivide_factor = 2;
    EXPECT_NO_THROW(refusal(options)());
    options.op = ReduceOp::sum;
    EXPECT_THAT(refusal(options), says("splits the division of an average"));
    EXPECT_THAT([&] { GradientReducer reducer({weights[0] * 2}, {}, runtime); },
                says("result of a computation"));
    EXPECT_THAT([&] { GradientReducer reducer({at::zeros({2}, at::kComplexDouble)}, {}, runtime); },
                says("Complex"));
  });
}

}  // namespace
}  // namespace rueda
