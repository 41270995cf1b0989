// SPDX-License-Identifier: Apache-2.0
// The torch frontend in process sets, on ranks that are threads: members train together, others apart.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "rueda/torch/state/parameters.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using torch::optim::SGD;
using torch::optim::SGDOptions;

constexpr int kSetRows = 3, kSetSteps = 5;

std::string words_of_refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const InvalidArgument& error) {
    return error.what();
  } catch (const Mismatch& error) {
    return error.what();
  }
  return "nothing was refused";
}

// Two models at a time: ranks 0 and 3 train one, 1, 2 and 4 another, each from the start of its last rank.
void train_apart(Runtime& runtime) {
  const ProcessSet first = add_process_set(RankSet(0, 1), runtime);
  remove_process_set(first, runtime);  // ids need not begin with 1
  RankSet outer, inner(1, 3);
  outer.add(RankSet::of(0));
  outer.add(RankSet::of(3));
  inner.add(RankSet::of(4));
  const ProcessSet sets[] = {add_process_set(outer, runtime), add_process_set(inner, runtime)};
  const ProcessSet& own = sets[sets[0].included() ? 0 : 1];
  const ProcessSet& other = sets[sets[0].included() ? 1 : 0];
  const Rank rank = runtime.topology().rank, root = own.ranks().at(own.size() - 1);

  Regression model(1 + rank);
  broadcast_parameters(model.named, root, own);
  Regression whole(1 + root);
  SGD plain(whole.tensors(), SGDOptions(0.1).momentum(0.9));
  DistributedOptimizer<SGD> optimizer(model.tensors(), SGDOptions(0.1).momentum(0.9),
                                      {.named_parameters = model.named}, own);
  if (rank == root) optimizer.param_groups()[0].options().set_lr(0.2);
  plain.param_groups()[0].options().set_lr(0.2);
  broadcast_optimizer_state(optimizer, root, own);
  for (int step = 0; step < kSetSteps; ++step) {
    plain.zero_grad();
    whole.loss(make_batch(kSetRows * own.size() * step, kSetRows * own.size())).backward();
    plain.step();
    optimizer.zero_grad();
    model.loss(make_batch(kSetRows * (own.size() * step + own.rank()), kSetRows)).backward();
    optimizer.step();
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_LT(difference(model[i], whole[i]), 1e-12) << rank;

  EXPECT_THAT(words_of_refusal([&] { GradientReducer(model.tensors(), {}, other); }),
              HasSubstr("this rank is none"));
  EXPECT_THAT(words_of_refusal([&] { broadcast_parameters(model.named, root, other); }),
              HasSubstr("this rank is none"));
  const Rank stranger = other.ranks().at(0);
  EXPECT_THAT(words_of_refusal([&] { broadcast_parameters(model.named, stranger, own); }),
              HasSubstr("it must be one of"));
}

TEST(TorchProcessSets, TrainApartOnOneHost) { run_on_one_host(5, train_apart); }
TEST(TorchProcessSets, TrainApartOverLinks) { run_ranks(5, train_apart); }

TEST(TorchProcessSets, ErrorsNameRanksOfTheJob) {
  run_on_one_host(4, [](Runtime& runtime) {
    const ProcessSet set = add_process_set(RankSet(2, 4), runtime);
    if (!set.included()) return;
    DistributedOptions options;
    options.backward_passes_per_step = runtime.topology().rank;
    EXPECT_THAT(words_of_refusal([&] { GradientReducer({make_parameter({2}, 1)}, options, set); }),
                testing::AllOf(HasSubstr("rank 2 has"), HasSubstr("rank 3 has")));
  });
}

// A power of two of members, of a job of any size.
TEST(TorchProcessSets, AFixedOrderCountsMembers) {
  run_on_one_host(3, [](Runtime& runtime) {
    const ProcessSet set = add_process_set(RankSet(0, 2), runtime);
    DistributedOptions options;
    options.reduction_order = ReductionOrder::fixed;
    EXPECT_THAT(words_of_refusal([&] { GradientReducer({make_parameter({2}, 1)}, options, runtime); }),
                HasSubstr("power of two of ranks, and there are 3"));
    if (!set.included()) return;
    const at::Tensor weight = make_parameter({2}, 1);
    GradientReducer reducer({weight}, options, set);
    (weight * (runtime.topology().rank + 1)).sum().backward();
    reducer.synchronize();
    EXPECT_EQ(difference(weight.grad(), at::full({2}, 1.5, at::kDouble)), 0.0);
  });
}

}  // namespace
}  // namespace rueda
