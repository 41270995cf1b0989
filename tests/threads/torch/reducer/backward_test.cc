// SPDX-License-Identifier: Apache-2.0
// Gradients that are reduced when backward() returns (synchronize_in_backward), on ranks that are threads.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <stdexcept>
#include <vector>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/reducer/gradient_reducer.h"
#include "tests/support/training/regression.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

DistributedOptions in_backward(int passes = 1, std::optional<bool> overlap = std::nullopt) {
  return {.backward_passes_per_step = passes, .overlap = overlap, .synchronize_in_backward = true};
}

// x times the sum of `inside`, whose gradient is found by a backward pass of its own inside the one that
// comes here, as with reentrant checkpoints.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor* inside) {  // no input, so that the pass outside leaves it alone
    context->saved_data["x"] = x.detach();
    context->saved_data["inside"] = *inside;
    return x * inside->detach().sum();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::AutoGradMode gradients_on(true);
    const at::Tensor x = context->saved_data["x"].toTensor().clone().requires_grad_();
    const at::Tensor inside = context->saved_data["inside"].toTensor();
    (x * inside.sum()).backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
};

struct Fails : torch::autograd::Function<Fails> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("no memory today");
  }
};

// A gradient of rank + 1 everywhere, so 1.5 on average over two ranks.
void run_pass(const at::Tensor& parameter, Rank rank) { (parameter.sum() * (rank + 1.0)).backward(); }

double first_gradient(const at::Tensor& parameter) { return parameter.grad()[0].item<double>(); }

TEST(InBackward, WhatComesNextSeesReducedGradients) {
  for (const bool overlap : {true, false}) {
    run_on_one_host(2, [&](Runtime& runtime) {
      const at::Tensor parameter = make_parameter({5}, 1);
      GradientReducer reducer({parameter}, in_backward(1, overlap), runtime);
      for (int step = 0; step < 3; ++step) {
        run_pass(parameter, runtime.topology().rank);
        EXPECT_EQ(first_gradient(parameter), 1.5);
        EXPECT_TRUE(reducer.before_step());
        EXPECT_EQ(first_gradient(parameter), 1.5);
        EXPECT_TRUE(reducer.before_zero_grad());
        parameter.mutable_grad().reset();
      }
    });
  }
}

TEST(InBackward, OnlyTheLastPassOfAStepWaits) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    GradientReducer reducer({parameter}, in_backward(2), runtime);
    const Rank rank = runtime.topology().rank;
    run_pass(parameter, rank);
    EXPECT_EQ(first_gradient(parameter), rank + 1.0);
    run_pass(parameter, rank);
    EXPECT_EQ(first_gradient(parameter), 1.5);
    reducer.before_step();
  });
}

TEST(InBackward, AScheduleThatAccumulatesWaitsAtItsLastStep) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    DistributedOptions options = in_backward();
    options.schedule = SyncSchedule::accumulate(2);
    GradientReducer reducer({parameter}, options, runtime);
    const Rank rank = runtime.topology().rank;
    run_pass(parameter, rank);
    EXPECT_FALSE(reducer.before_step());
    EXPECT_FALSE(reducer.before_zero_grad());
    EXPECT_EQ(first_gradient(parameter), rank + 1.0);
    run_pass(parameter, rank);
    EXPECT_EQ(first_gradient(parameter), 1.5);
    EXPECT_TRUE(reducer.before_step());
    EXPECT_TRUE(reducer.before_zero_grad());
  });
}

TEST(InBackward, AnotherPassOfTheStepIsReducedToo) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    GradientReducer reducer({parameter}, in_backward(), runtime);
    run_pass(parameter, runtime.topology().rank);
    run_pass(parameter, runtime.topology().rank);
    EXPECT_EQ(first_gradient(parameter), 3.0);
    reducer.before_step();
  });
}

TEST(InBackward, AnotherPassOfASumLeavesWhatWasSummed) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1), other = make_parameter({5}, 2);
    DistributedOptions options = in_backward();
    options.op = ReduceOp::sum;
    GradientReducer reducer({parameter, other}, options, runtime);
    const Rank rank = runtime.topology().rank;
    run_pass(other, rank);
    EXPECT_EQ(first_gradient(other), 3.0);
    run_pass(parameter, rank);
    run_pass(parameter, rank);
    EXPECT_EQ(first_gradient(parameter), 6.0);
    EXPECT_EQ(first_gradient(other), 3.0);
    reducer.before_step();
  });
}

TEST(InBackward, AnotherStepOfPassesAddsToTheirMean) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    GradientReducer reducer({parameter}, in_backward(2), runtime);
    for (int pass = 0; pass < 4; ++pass) run_pass(parameter, runtime.topology().rank);
    EXPECT_EQ(first_gradient(parameter), 3.0);
    reducer.before_step();
  });
}

TEST(InBackward, AllReducersOfAPassSubmitBeforeOneWaits) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor head = make_parameter({5}, 1), trunk = make_parameter({5}, 2);
    GradientReducer of_head({head}, in_backward(), runtime), of_trunk({trunk}, in_backward(), runtime);
    const Rank rank = runtime.topology().rank;
    if (rank == 0) (head * trunk).sum().backward();
    if (rank == 1) trunk.sum().backward();  // and takes part in the head's when it steps
    of_trunk.before_step();
    of_head.before_step();
    EXPECT_TRUE(at::equal(head.grad(), trunk.detach() / 2));
    EXPECT_TRUE(at::equal(trunk.grad(), (head.detach() + 1) / 2));
  });
}

TEST(InBackward, APassInsideAnotherIsPartOfIt) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor first = make_parameter({5}, 1), last = make_parameter({5}, 2);
    const at::Tensor insides[] = {make_parameter({3}, 3), make_parameter({3}, 4)};
    const std::vector<at::Tensor> all{first, insides[0], insides[1], last};
    GradientReducer reducer(all, in_backward(2), runtime);
    const double factor = runtime.topology().rank + 1.0;
    const auto loss = [&](bool with_last) {
      const at::Tensor hidden = Recomputed::apply(Recomputed::apply(first, &insides[0]), &insides[1]);
      return (with_last ? hidden * last : hidden).sum() * factor;
    };
    loss(false).backward();  // of which the inside is heard first
    const at::Tensor own = first.grad().clone();
    loss(true).backward();
    for (const at::Tensor& parameter : all) {
      const at::Tensor mine = parameter.grad().clone();
      EXPECT_TRUE(at::equal(broadcast(mine, 0, "of rank 0", runtime), mine));
    }
    EXPECT_FALSE(at::equal(first.grad(), own));
    reducer.before_step();
  });
}

TEST(InBackward, APassOfWhichOnlyTheInsideReachesParameters) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor insides[] = {make_parameter({5}, 1), make_parameter({5}, 2)};
    const at::Tensor x = at::ones({1}, at::kDouble).requires_grad_();
    GradientReducer reducer({insides[0], insides[1]}, in_backward(2), runtime);
    const Rank rank = runtime.topology().rank;
    for (int pass = 0; pass < 4; ++pass) {
      const at::Tensor hidden = Recomputed::apply(x, &insides[0]) / insides[0].detach().sum();
      const at::Tensor loss = Recomputed::apply(hidden, &insides[1]).sum() * (rank + 1.0);
      loss.backward({}, /*retain_graph=*/pass == 2);
      EXPECT_EQ(first_gradient(insides[1]), pass % 2 == 0 ? rank + 1.0 : 1.5) << "pass " << pass;
      EXPECT_TRUE(at::allclose(insides[0].grad() * insides[0].detach().sum(),
                               insides[1].grad() * insides[1].detach().sum()));
      if (pass % 2 == 0) continue;
      reducer.before_step();
      for (const at::Tensor& inside : insides) inside.mutable_grad().reset();
    }
  });
}

TEST(InBackward, WhereNothingCanBeHeardOfThePassAroundTheStepReduces) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor inside = make_parameter({5}, 1), x = at::ones({1}, at::kDouble).requires_grad_();
    GradientReducer reducer({inside}, in_backward(2), runtime);
    const Rank rank = runtime.topology().rank;
    x.register_hook([&](const at::Tensor&) {
      const at::AutoGradMode gradients_on(true);
      run_pass(inside, rank);
    });
    for (int pass = 0; pass < 2; ++pass) x.sum().backward();
    EXPECT_EQ(first_gradient(inside), 2 * (rank + 1.0));
    reducer.before_step();
    EXPECT_EQ(first_gradient(inside), 1.5);
  });
}

TEST(InBackward, AfterAPassThatFailedTheNextIsReduced) {
  for (const int passes : {1, 2}) {
    run_on_one_host(2, [&](Runtime& runtime) {
      const at::Tensor last = make_parameter({5}, 1), first = make_parameter({5}, 2);
      GradientReducer reducer({last, first}, in_backward(passes, false), runtime);
      const Rank rank = runtime.topology().rank;
      EXPECT_THROW((last * Fails::apply(first)).sum().backward(), std::exception);
      last.mutable_grad().reset();  // as a module's zero_grad() does
      for (int pass = 0; pass < passes; ++pass) run_pass(last, rank);
      EXPECT_EQ(first_gradient(last), 1.5);
      reducer.before_step();
    });
  }
}

TEST(InBackward, AStepWhoseGradientsAreOnTheirWayWhenAPassFailsIsEndedByAll) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor last = make_parameter({5}, 1), first = make_parameter({5}, 2);
    GradientReducer reducer({last, first}, in_backward(1, true), runtime);
    const Rank rank = runtime.topology().rank;
    if (rank == 0) {
      EXPECT_THROW((last * Fails::apply(first)).sum().backward(), std::exception);
      EXPECT_THAT(words_of<InvalidArgument>([&] { reducer.before_zero_grad(); }),
                  testing::HasSubstr("after a backward pass that failed"));
      EXPECT_THAT(words_of<InvalidArgument>([&] { run_pass(last, rank); }),
                  testing::HasSubstr("after a backward pass of this step that failed"));
      reducer.synchronize();
      EXPECT_TRUE(reducer.before_zero_grad());
    } else {
      (last * first).sum().backward();
      reducer.before_step();
    }
    last.mutable_grad().reset();
    first.mutable_grad().reset();
    run_pass(last, rank);
    EXPECT_EQ(first_gradient(last), 1.5);
    reducer.before_step();
  });
}

TEST(InBackward, PassesWithoutSynchronisationOnlyAdd) {
  for (const bool overlap : {true, false}) {
    run_on_one_host(2, [&](Runtime& runtime) {
      const at::Tensor parameter = make_parameter({5}, 1), early = make_parameter({5}, 2);
      GradientReducer reducer({parameter, early}, in_backward(1, overlap), runtime);
      const Rank rank = runtime.topology().rank;
      for (int step = 0; step < 2; ++step) {
        {
          const auto quiet = reducer.no_sync();
          run_pass(parameter, rank);
          run_pass(early, rank);
        }
        EXPECT_EQ(first_gradient(parameter), rank + 1.0);
        run_pass(parameter, rank);
        EXPECT_EQ(first_gradient(parameter), 3.0);
        EXPECT_EQ(first_gradient(early), 1.5);
        parameter.mutable_grad().reset();
        early.mutable_grad().reset();
      }
    });
  }
}

TEST(InBackward, ARankWithoutABackwardPassTakesPartWhenItSteps) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    GradientReducer reducer({parameter}, in_backward(), runtime);
    if (runtime.topology().rank == 0) run_pass(parameter, 0);
    reducer.before_step();
    EXPECT_EQ(first_gradient(parameter), 0.5);
  });
}

TEST(InBackward, AFailureIsThrownByThePassAndTheNextStepWorks) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor first = make_parameter({5}, 1), second = make_parameter({5}, 2);
    GradientReducer reducer({first, second}, in_backward(), runtime);
    const Rank rank = runtime.topology().rank;
    second.mutable_grad() = at::ones({5}, rank == 0 ? at::kDouble : at::kFloat);
    EXPECT_THAT(words_of<Mismatch>([&] { run_pass(first, rank); }),
                testing::HasSubstr("gradient of parameter 'parameter.1'"));
    EXPECT_TRUE(reducer.before_zero_grad());
    first.mutable_grad().reset();
    second.mutable_grad().reset();
    run_pass(first, rank);
    EXPECT_EQ(first_gradient(first), 1.5);
    EXPECT_TRUE(reducer.before_step());
  });
}

}  // namespace
}  // namespace rueda
