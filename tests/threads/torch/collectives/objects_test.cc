// SPDX-License-Identifier: Apache-2.0
// Objects of one rank given to all, on ranks that are threads.
#include "rueda/torch/state/objects.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize/archive.h>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "tests/support/rank_words.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Objects : public testing::TestWithParam<Rank> {};

TEST_P(Objects, BytesOfAnyNumber) {
  run_ranks(GetParam(), [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank, last = runtime.topology().size - 1;
    for (const std::string& sent : {std::string(), std::string("\0one\n", 5), std::string(100'000, 'x')}) {
      std::string bytes = rank == last ? sent : std::string(static_cast<std::size_t>(rank) + 7, 'y');
      broadcast_object(bytes, last, runtime);
      EXPECT_EQ(bytes, sent);
    }
    const std::vector<std::string> all = allgather_object(
        std::string(static_cast<std::size_t>(rank) * 3, static_cast<char>('a' + rank)), runtime);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(last) + 1);
    EXPECT_EQ(all[0], "");
    if (last > 0) {
      EXPECT_EQ(all[1], "bbb");
    }
  });
}

TEST_P(Objects, TensorsOfAnyShapeAndType) {
  run_ranks(GetParam(), [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const auto own = [](Rank of) {
      return of == 0 ? at::full({2, 3}, 0.5, at::kDouble).t() : at::arange(of, at::kLong);
    };
    at::Tensor tensor = own(rank);
    broadcast_object(tensor, 0, runtime);
    EXPECT_EQ(tensor.scalar_type(), at::kDouble);
    EXPECT_TRUE(at::equal(tensor, own(0)));
    const std::vector<at::Tensor> all = allgather_object(own(rank).requires_grad_(rank == 0), runtime);
    for (Rank of = 0; of < runtime.topology().size; ++of) {
      EXPECT_TRUE(at::equal(all.at(of), own(of)));
      EXPECT_FALSE(all.at(of).requires_grad());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Objects, testing::Values(1, 2, 3));

TEST(BroadcastObject, ModulesGetTheirValuesWhereTheyLie) {
  run_ranks(3, [](Runtime& runtime) {
    torch::nn::Linear module(2, 2);
    const void* address = module->weight.data_ptr();
    at::Tensor bias = module->bias;
    bias.detach().fill_(runtime.topology().rank);
    broadcast_object(module, 2, runtime);
    EXPECT_EQ(bias[1].item<float>(), 2.0F);
    EXPECT_TRUE(bias.is_same(module->bias));
    EXPECT_EQ(module->weight.data_ptr(), address);
    EXPECT_TRUE(module->weight.requires_grad());
  });
}

TEST(BroadcastObject, InAProcessSet) {
  run_ranks(3, [](Runtime& runtime) {
    const ProcessSet set = add_process_set(RankSet(1, 3), runtime);
    std::string bytes = std::to_string(runtime.topology().rank);
    if (!set.included()) {
      EXPECT_THAT(error_message([&] { broadcast_object(bytes, 1, set); }), HasSubstr("this rank is none"));
      EXPECT_THAT(error_message([&] { allgather_object(bytes, set); }), HasSubstr("this rank is none"));
      return;
    }
    EXPECT_THAT(allgather_object(bytes, set), ElementsAre("1", "2"));
    EXPECT_THAT(error_message([&] { broadcast_object(bytes, 0, set); }),
                HasSubstr("it must be one of ranks 1-2"));
    broadcast_object(bytes, 2, set);
    EXPECT_EQ(bytes, "2");
  });
}

// A module that cannot be saved.
struct UnsavableObjectImpl : torch::nn::Module {
  void save(torch::serialize::OutputArchive&) const override { throw std::runtime_error("no ink"); }
};

TEST(BroadcastObject, FailuresAreToldOnEveryRankAndTheNextWorks) {
  RankWords unsavable, misfit, kinds;
  run_ranks(3, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    UnsavableObjectImpl module;
    unsavable.of([&] { broadcast_object(module, 1, runtime); });
    torch::nn::Linear linear(2, rank == 2 ? 3 : 2);
    const at::Tensor before = linear->weight.detach().clone();
    misfit.of([&] { broadcast_object(linear, 0, runtime); });
    if (rank == 2) {
      EXPECT_TRUE(at::equal(linear->weight, before));
    }
    at::Tensor tensor = at::full({1}, rank);
    kinds.of(
        [&] { rank == 0 ? broadcast_object(tensor, 0, runtime) : broadcast_object(linear, 0, runtime); });
    std::string bytes = "of " + std::to_string(rank);
    EXPECT_THROW(broadcast_object(bytes, 3, runtime), InvalidArgument);
    EXPECT_THROW(broadcast_object(bytes, rank, runtime), Mismatch);
    broadcast_object(tensor, 2, runtime);
    EXPECT_EQ(tensor.item<int>(), 2);
  });
  EXPECT_EQ(unsavable.common(3), "broadcast_object: rank 1: no ink");
  EXPECT_THAT(misfit.common(3),
              HasSubstr("rank 2: 'weight' has the shape [3, 2], and [2, 2] in what is loaded"));
  EXPECT_THAT(kinds.common(3),
              HasSubstr("ranks 1-2 have a module of 2 parameters and 0 buffers, rank 0 has a tensor"));
}

}  // namespace
}  // namespace rueda
