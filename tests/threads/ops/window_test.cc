// SPDX-License-Identifier: Apache-2.0
// Tensors of rueda::allocate through the whole stack: the same bits as ordinary ones, in any company.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/values.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                             ReduceOp::product};

struct Case {
  DataType dtype;
  ReduceOp op;
  std::int64_t elements;
};

// Sizes around a slot, a chunk and several of them; each dtype and operator in turn.
std::vector<Case> cases() {
  std::vector<Case> result;
  int turn = 0;
  for (std::int64_t elements : {1, 1000, 1025, 5000, 65'537, 200'003}) {
    for (int dtype = 0; dtype < kDataTypeCount; ++dtype) {
      ReduceOp op = kOps[turn++ % 5];
      if (op == ReduceOp::average && dtype == static_cast<int>(DataType::boolean)) op = ReduceOp::max;
      result.push_back({static_cast<DataType>(dtype), op, elements});
    }
  }
  return result;
}

void fill(const TensorView& tensor, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(0.1, 2.9);  // sums of which depend on the order
  for (std::int64_t i = 0; i < tensor.elements(); ++i) set_value(tensor.dtype, tensor.data, i, real(random));
}

// The same operation with each kind of memory on each rank, as `in_window` says.
class Pair {
 public:
  Pair(Runtime& runtime, const Case& what, bool in_window, bool in_place)
      : case_(what), bytes_(static_cast<std::size_t>(what.elements) * size_of(what.dtype)), plain_(bytes_) {
    plain_view_ = {plain_.data(), case_.dtype, {case_.elements}, {}};
    view_ = plain_view_;
    window_ =
        in_window ? runtime.allocate(bytes_) : std::shared_ptr<std::byte>(new std::byte[bytes_], Free());
    view_.data = window_.get();
    input_ = view_;
    if (in_place) return;
    apart_.resize(bytes_);
    input_.data = apart_.data();
  }

  void submit(Runtime& runtime, const std::string& name, unsigned seed) {
    fill(plain_view_, seed);
    fill({const_cast<void*>(input_.data), case_.dtype, {case_.elements}, {}}, seed);
    const Reduction how{case_.op};
    handles_.push_back(allreduce_async(name + ".plain", plain_view_, plain_view_, how, runtime));
    handles_.push_back(allreduce_async(name + ".window", input_, view_, how, runtime));
  }

  void check() {
    for (Handle& handle : handles_) handle.wait();
    handles_.clear();
    ASSERT_EQ(std::memcmp(plain_view_.data, view_.data, bytes_), 0)
        << to_string(case_.dtype) << " " << to_string(case_.op) << " " << case_.elements;
  }

 private:
  struct Free {
    void operator()(const std::byte* block) const { delete[] block; }
  };
  Case case_;
  std::size_t bytes_;
  HostBuffer plain_;
  TensorView plain_view_;
  std::shared_ptr<std::byte> window_;
  TensorView view_;
  std::vector<std::byte> apart_;
  ConstTensorView input_;
  std::vector<Handle> handles_;
};

class WindowTensors : public testing::TestWithParam<Rank> {};

TEST_P(WindowTensors, HaveTheBitsOfOrdinaryOnes) {
  run_ranks(
      GetParam(),
      [](Runtime& runtime) {
        unsigned turn = 0;
        for (const Case& what : cases()) {
          // All in the window; one rank's elsewhere; inputs of their own.
          const bool mixed = turn % 3 == 1 && runtime.topology().rank == static_cast<Rank>(turn) % 2;
          Pair pair(runtime, what, !mixed, turn % 4 != 3);
          for (unsigned again = 0; again < 2; ++again) {
            pair.submit(runtime, "x",
                        turn * 10 + again + 100 * static_cast<unsigned>(runtime.topology().rank));
            pair.check();
          }
          ++turn;
        }
      },
      {}, 8);
}

TEST_P(WindowTensors, AreFused) {
  run_ranks(
      GetParam(),
      [](Runtime& runtime) {
        for (unsigned round = 0; round < 10; ++round) {
          std::vector<Pair> pairs;
          for (unsigned i = 0; i < 20; ++i)
            pairs.emplace_back(runtime, Case{DataType::float32, ReduceOp::average, 1 + 997 * i},
                               round % 3 != 0 || i % 7 != 0, true);
          for (unsigned i = 0; i < 20; ++i)
            pairs[i].submit(runtime, std::to_string(i),
                            round + i + static_cast<unsigned>(runtime.topology().rank));
          for (Pair& pair : pairs) pair.check();
        }
      },
      {}, 8);
}

INSTANTIATE_TEST_SUITE_P(Ranks, WindowTensors, testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return std::to_string(info.param); });

TEST(WindowMemory, OutlivesTheJobAndIsOrdinaryInTheNext) {
  MemoryNetwork network(2, 8);
  std::vector<std::shared_ptr<std::byte>> kept(2);
  run_ranks_on(network, 2, [&](Runtime& runtime) {
    kept[static_cast<std::size_t>(runtime.topology().rank)] = runtime.allocate(100'000);
  });
  MemoryNetwork next(2, 8);
  run_ranks_on(next, 2, [&](Runtime& runtime) {
    auto* values = reinterpret_cast<float*>(kept[static_cast<std::size_t>(runtime.topology().rank)].get());
    std::fill_n(values, 25'000, 1.5F);
    const TensorView tensor = view(std::span(values, 25'000));
    allreduce_async("x", tensor, tensor, {ReduceOp::sum}, runtime).wait();
    EXPECT_EQ(std::vector(values, values + 25'000), std::vector<float>(25'000, 3.0F));
  });
}

TEST(WindowMemory, ARankWithoutAWindowSendsTheOthersThroughTheAreas) {
  MemoryNetwork network(3, 8);
  auto body = [](Runtime& runtime) {
    const std::shared_ptr<std::byte> memory = runtime.allocate(400'000);
    const std::span values(reinterpret_cast<float*>(memory.get()), 100'000);
    for (int i = 0; i < 20; ++i) {
      std::ranges::fill(values, static_cast<float>(runtime.topology().rank + i));
      allreduce_async("x", view(values), view(values), {ReduceOp::sum}, runtime).wait();
      ASSERT_TRUE(
          std::ranges::all_of(values, [i](float value) { return value == static_cast<float>(3 + 3 * i); }));
    }
    EXPECT_EQ(runtime.tensor_memory() == nullptr, runtime.topology().rank == 1);
  };
  run_ranks_on(network, 3, body, [](Rank rank) {
    Config config;
    if (rank == 1) config.window_limit = 0;
    return config;
  });
  EXPECT_EQ(network.moved_bytes(), 0u);
}

// A rank that has joined stands in with ordinary memory.
TEST(WindowMemory, AJoinedRankSendsTheOthersThroughTheAreas) {
  run_on_one_host(3, [](Runtime& runtime) {
    const std::shared_ptr<std::byte> memory = runtime.allocate(400'000);
    const std::span values(reinterpret_cast<float*>(memory.get()), 100'000);
    for (int i = 0; i < 10; ++i) {
      if (runtime.topology().rank == 2 && i == 5) break;
      std::ranges::fill(values, static_cast<float>(runtime.topology().rank + 1));
      allreduce_async("x" + std::to_string(i), view(values), view(values), {ReduceOp::sum}, runtime).wait();
      const float expected = i < 5 ? 6 : 3;
      ASSERT_TRUE(std::ranges::all_of(values, [expected](float value) { return value == expected; }));
    }
    join(runtime);
  });
}

}  // namespace
}  // namespace rueda
