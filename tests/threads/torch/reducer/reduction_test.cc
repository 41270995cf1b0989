// SPDX-License-Identifier: Apache-2.0
// What a reduction does with gradients: sum, average in two parts, Adasum, compression.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/engine/runtime.h"
#include "rueda/torch/reducer/gradient_reducer.h"
#include "tests/support/conformance/adasum_reference.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

TEST(GradientReduction, SumAddsOverRanks) {
  run_on_one_host(3, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters{make_parameter({2}, 1)};
    DistributedOptions options;
    options.op = ReduceOp::sum;
    GradientReducer reducer(parameters, options, runtime);
    parameters[0].sum().backward();
    reducer.synchronize();
    EXPECT_EQ(difference(parameters[0].grad(), at::full({2}, 3.0, at::kDouble)), 0.0);
  });
}

TEST(GradientReduction, PassesMayBeSummed) {
  for (const ReductionOrder order : {ReductionOrder::any, ReductionOrder::fixed}) {
    run_on_one_host(2, [&](Runtime& runtime) {
      const std::vector<at::Tensor> parameters{make_parameter({2}, 1)};
      DistributedOptions options;
      options.backward_passes_per_step = 4;
      options.sum_passes = true;
      options.reduction_order = order;
      GradientReducer reducer(parameters, options, runtime);
      for (const int passes : {4, 2}) {  // 2: an early step, which nothing makes larger
        reducer.before_zero_grad();
        parameters[0].mutable_grad().reset();
        for (int pass = 0; pass < passes; ++pass)
          (parameters[0].sum() * (runtime.topology().rank + 1.0)).backward();
        EXPECT_TRUE(reducer.before_step());
        EXPECT_EQ(difference(parameters[0].grad(), at::full({2}, 1.5 * passes, at::kDouble)), 0.0) << passes;
      }
    });
  }
}

TEST(GradientReduction, AnAverageMayBeDividedBeforeAndAfter) {
  const Regression whole;
  whole.loss(make_batch(0, 12)).backward();
  run_ranks(3, [&](Runtime& runtime) {
    const Regression model;
    DistributedOptions options;
    options.backward_passes_per_step = 2;
    options.gradient_predivide_factor = 8;
    GradientReducer reducer(model.tensors(), options, runtime);
    for (int pass = 0; pass < 2; ++pass)
      model.loss(make_batch(2 * (2 * runtime.topology().rank + pass), 2)).backward();
    reducer.synchronize();
    for (std::size_t i = 0; i < 4; ++i) EXPECT_LT(difference(model[i].grad(), whole[i].grad()), 1e-12) << i;
  });
}

// Between hosts; inside one they are exact.
TEST(GradientReduction, TravelCompressed) {
  for (const Compression compression : {Compression::none, Compression::fp16, Compression::bf16}) {
    MemoryNetwork network(2);
    run_ranks_on(network, 2, [&](Runtime& runtime) {
      const at::Tensor weight = make_parameter({1000}, 1, at::kFloat);
      DistributedOptions options;
      options.compression = compression;
      GradientReducer reducer({weight}, options, runtime);
      const at::Tensor gradient = make_parameter({1000}, 2 + runtime.topology().rank, at::kFloat).detach();
      (weight * gradient).sum().backward();
      reducer.synchronize();
      const at::Tensor exact =
          (make_parameter({1000}, 2, at::kFloat) + make_parameter({1000}, 3, at::kFloat)).detach() / 2;
      const at::ScalarType type = compression == Compression::fp16   ? at::kHalf
                                  : compression == Compression::bf16 ? at::kBFloat16
                                                                     : at::kFloat;
      EXPECT_LT(difference(weight.grad(), exact), compression == Compression::none ? 1e-6 : 1e-2);
      EXPECT_TRUE(at::equal(weight.grad(), weight.grad().to(type).to(at::kFloat)));
    });
    // Besides: agreement on the parameters, and presence.
    constexpr std::uint64_t kOthers = 100;
    const std::uint64_t bytes = compression == Compression::none ? 8000 : 4000;
    EXPECT_GE(network.moved_bytes(), bytes);
    EXPECT_LT(network.moved_bytes(), bytes + kOthers);
  }
}

// A tenth a step; what is kept back comes with the next ones.
TEST(GradientReduction, TravelInShares) {
  MemoryNetwork network(2);
  run_ranks_on(network, 2, [&](Runtime& runtime) {
    const at::Tensor weight = make_parameter({1000}, 1, at::kFloat);
    DistributedOptions options;
    options.compression = Compression::topk;
    options.compression_share = 0.1;
    GradientReducer reducer({weight}, options, runtime);
    at::Tensor came = at::zeros({1000});
    for (int step = 0; step < 10; ++step) {
      const at::Tensor gradient =
          step == 0 ? make_parameter({1000}, 2 + runtime.topology().rank, at::kFloat).detach()
                    : at::zeros({1000});
      weight.mutable_grad() = at::Tensor();
      (weight * gradient).sum().backward();
      reducer.synchronize();
      EXPECT_LE(weight.grad().count_nonzero().item<std::int64_t>(), 200);
      came += weight.grad();
      reducer.before_step();
      reducer.after_step();
    }
    const at::Tensor exact =
        (make_parameter({1000}, 2, at::kFloat) + make_parameter({1000}, 3, at::kFloat)).detach() / 2;
    EXPECT_LT(difference(came, exact), 1e-6);
    options.compression_share = 0.0;
    EXPECT_THROW(GradientReducer({weight}, options, runtime), InvalidArgument);
  });
  // Besides: agreement on the parameters, and presence at each step.
  EXPECT_GE(network.moved_bytes(), 10 * 2 * 8 * 100u);
  EXPECT_LT(network.moved_bytes(), 10 * (2 * 8 * 100u + 100));
}

TEST(GradientReduction, AdasumIsOfEachParameter) {
  constexpr Rank kRanks = 3;
  auto weights = [](Rank rank, int parameter) {
    const at::Tensor numbers = at::arange(1, 8, at::kDouble);
    return numbers * (rank + 1) + at::cos(numbers * (rank + parameter));
  };
  run_ranks(kRanks, [&](Runtime& runtime) {
    const std::vector<at::Tensor> parameters{make_parameter({7}, 1), make_parameter({7}, 2),
                                             make_parameter({7}, 3)};
    DistributedOptions options;
    options.backward_passes_per_step = 2;
    options.op = ReduceOp::adasum;
    GradientReducer reducer(parameters, options, runtime);
    const Rank rank = runtime.topology().rank;
    for (int pass = 0; pass < 2; ++pass) {
      at::Tensor loss = (parameters[0] * weights(rank, 0)).sum() + (parameters[1] * weights(rank, 1)).sum();
      if (rank == 1) loss = loss + (parameters[2] * weights(rank, 2)).sum();  // zeros elsewhere
      loss.backward();
    }
    reducer.synchronize();
    for (int parameter = 0; parameter < 3; ++parameter) {
      std::vector<Vector> gradients;
      for (Rank from = 0; from < kRanks; ++from) {
        const at::Tensor each = weights(from, parameter).contiguous();
        const auto* values = each.const_data_ptr<double>();
        gradients.emplace_back(values, values + 7);
        if (parameter == 2 && from != 1) gradients.back().assign(7, 0.0);
      }
      const Vector expected = adasum_of(std::move(gradients));
      const at::Tensor tensor = at::tensor(expected, at::kDouble);
      EXPECT_LT(difference(parameters[parameter].grad(), tensor), 1e-12) << parameter;
    }
  });
}

}  // namespace
}  // namespace rueda
