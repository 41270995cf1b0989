// SPDX-License-Identifier: Apache-2.0
// What each rank of a ShardedOptimizer keeps, and what all refuse when one brings what cannot be.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/sharding/parameter_shards.h"
#include "rueda/torch/optimizers/fused_adamw.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/rank_words.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using torch::optim::AdamWOptions;
using Adam = ShardedOptimizer<FusedAdamW>;

std::vector<at::Tensor> make_large_model() {
  return {make_parameter({500, 300}, 1, at::kFloat), make_parameter({300}, 2, at::kFloat),
          make_parameter({100'000}, 3, at::kFloat), make_parameter({}, 4, at::kFloat)};
}

void step_once(auto& optimizer, const std::vector<at::Tensor>& model) {
  optimizer.zero_grad();
  for (const at::Tensor& parameter : model) parameter.square().sum().backward();
  optimizer.step();
}

// Bytes that the state holds, not only those that it shows.
std::int64_t state_bytes(torch::optim::Optimizer& optimizer) {
  std::int64_t bytes = 0;
  for (const auto& [key, each] : optimizer.state()) {
    const auto& state = static_cast<const torch::optim::AdamWParamState&>(*each);
    for (const at::Tensor& tensor : {state.exp_avg(), state.exp_avg_sq(), state.max_exp_avg_sq()})
      bytes += static_cast<std::int64_t>(tensor.storage().nbytes());
  }
  return bytes;
}

class ShardedParts : public testing::TestWithParam<std::tuple<Rank, bool>> {};

TEST_P(ShardedParts, EachRankHasItsShareOfTheStateAndAllTogetherTheWhole) {
  const auto [ranks, share] = GetParam();
  const auto options = AdamWOptions(0.1).amsgrad(true);
  const std::vector<at::Tensor> model = make_large_model();
  FusedAdamW whole(model, options);
  step_once(whole, model);
  const std::int64_t all = state_bytes(whole);
  ASSERT_EQ(all, (500 * 300 + 300 + 100'000 + 1) * 4 * 3);
  std::vector<std::int64_t> bytes(ranks);
  std::vector<const void*> memory(ranks);
  Config config;
  if (!share) config.window_limit = 0;
  run_on_one_host(
      ranks,
      [&, share = share](Runtime& runtime) {
        const Rank rank = runtime.topology().rank;
        const std::vector<at::Tensor> own = make_large_model();
        if (rank != 0) own[2].detach().fill_(7);  // rank 0's values count
        Adam optimizer(own, options, {}, runtime);
        EXPECT_EQ(optimizer.shares_parameters(), share);
        EXPECT_LE(own[2].max().item<float>(), 1.0F);
        step_once(optimizer, own);
        bytes[rank] = state_bytes(optimizer);
        memory[rank] = own[0].const_data_ptr();
      },
      config);
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}), all);
  for (Rank rank = 0; rank < ranks; ++rank) {
    EXPECT_LE(std::abs(bytes[rank] - all / ranks), ParameterShards::kGrain * 4 * 3) << "rank " << rank;
    EXPECT_EQ(memory[rank] == memory[0], share || rank == 0) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShardedParts, testing::Combine(testing::Values(2, 3, 4), testing::Bool()));

TEST(ShardedRefusal, OfOneRankIsThatOfAllWhichNamesIt) {
  const auto twice = [](std::vector<at::Tensor>& model) { model[3] = model[1]; };
  const auto part = [](std::vector<at::Tensor>& model) {
    model[2] = model[2].detach().narrow(0, 0, 99).requires_grad_(true);
  };
  const auto sparse = [](std::vector<at::Tensor>& model) { model[1] = model[1].detach().to_sparse(); };
  const auto undefined = [](std::vector<at::Tensor>& model) { model[0] = at::Tensor(); };
  using Bring = std::function<void(std::vector<at::Tensor>&)>;
  for (const auto& [bring, reason] :
       {std::pair<Bring, std::string>{twice, "parameter.1 and parameter.3 have one memory"},
        {part, "parameter.2 is part of another tensor"},
        {sparse, "tensor 'parameter.1' has the layout Sparse"},
        {undefined, "tensor 'parameter.0' is undefined"}}) {
    for (Rank guilty = 0; guilty < 3; ++guilty) {
      RankWords words;
      const auto begin = std::chrono::steady_clock::now();
      run_on_one_host(3, [&, bring = bring](Runtime& runtime) {
        std::vector<at::Tensor> model = make_large_model();
        if (runtime.topology().rank == guilty) bring(model);
        words.of([&] { Adam optimizer(model, AdamWOptions(0.1), {}, runtime); });
        const std::vector<at::Tensor> good = make_large_model();
        Adam optimizer(good, AdamWOptions(0.1), {}, runtime);  // ranks are still together
        step_once(optimizer, good);
      });
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
      EXPECT_THAT(words.common(3), HasSubstr(fmt::format("optimizer: rank {}: {}", guilty, reason)));
    }
  }
}

TEST(ShardedRefusal, OfSeveralRanksNamesAllWithTheirReasons) {
  RankWords words;
  run_on_one_host(3, [&](Runtime& runtime) {
    std::vector<at::Tensor> model = make_large_model();
    if (runtime.topology().rank == 0) model[3] = model[1];
    if (runtime.topology().rank == 2) model[2] = model[2].detach().narrow(0, 0, 99);
    words.of([&] { Adam optimizer(model, AdamWOptions(0.1), {}, runtime); });
  });
  const std::string common = words.common(3);
  EXPECT_THAT(common, HasSubstr("rank 0: parameter.1 and parameter.3 have one memory"));
  EXPECT_THAT(common, HasSubstr("rank 2: parameter.2 is part of another tensor"));
}

}  // namespace
}  // namespace rueda
