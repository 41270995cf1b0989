// SPDX-License-Identifier: Apache-2.0
// Squares of results, summed up on the way: over all ranks as by a plain loop over the result, by whatever
// way it came.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/uneven_values.h"
#include "tests/support/conformance/values.h"
#include "tests/support/sanitized.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr DataType kFloats[] = {DataType::float16, DataType::bfloat16, DataType::float32, DataType::float64};

enum class Layout { apart, in_place, window, strided, transposed };
constexpr Layout kLayouts[] = {Layout::apart, Layout::in_place, Layout::window, Layout::strided,
                               Layout::transposed};

// Purpose: tensors that are reduced together, on one rank.
class MeasuredTensors {
 public:
  MeasuredTensors(Scope scope, DataType dtype, const std::vector<std::int64_t>& counts, Layout layout)
      : scope_(std::move(scope)), dtype_(dtype) {
    const Rank rank = scope_.runtime().topology().rank;
    for (const std::int64_t count : counts) {
      outputs_.push_back(make(count, layout));
      inputs_.push_back(layout == Layout::apart || layout == Layout::strided ? make(count, Layout::apart)
                                                                             : outputs_.back());
      // Columns differ by rank in their positions, not in their number.
      if (layout == Layout::transposed && rank % 2 == 1) {
        const Shape& shape = outputs_.back().shape;
        outputs_.back().strides = {1, shape[0]};
        inputs_.back() = outputs_.back();
      }
      if (layout == Layout::strided) outputs_.back().strides = {2 * outputs_.back().shape[1], 2};
      for (std::int64_t i = 0; i < count; ++i)
        set_value(dtype, const_cast<void*>(inputs_.back().data), offset_of(inputs_.back(), i),
                  number(rank, i));
    }
  }

  // Of the first tensor.
  void set_input(std::int64_t i, double value) {
    set_value(dtype_, const_cast<void*>(inputs_.front().data), offset_of(inputs_.front(), i), value);
  }

  // As one Plan; what this rank has counted.
  std::vector<double> reduce(const std::string& name, Reduction how) {
    how.measure = true;
    std::vector<double> shares;
    for (const Handle& handle : grouped_allreduce_async(name, inputs_, outputs_, how, scope_)) {
      handle.wait();
      shares.push_back(handle.share_of_square_sum());
    }
    return shares;
  }

  void check(const std::string& name, const Reduction& how) {
    std::vector<double> sums = reduce(name, how);
    allreduce_async(name + ".shares", view(sums), view(sums), {ReduceOp::sum}, scope_).wait();
    for (std::size_t tensor = 0; tensor < sums.size(); ++tensor) {
      const double exact = square_sum(tensor);
      ASSERT_NEAR(sums[tensor], exact, 1e-12 * exact) << name << ", tensor " << tensor;
      ASSERT_EQ(exact > 0, outputs_[tensor].elements() > 0);
    }
  }

 private:
  TensorView make(std::int64_t count, Layout layout) {
    const auto bytes = static_cast<std::size_t>(2 * count) * size_of(dtype_) + 1;
    memory_.push_back(
        layout == Layout::window
            ? scope_.runtime().allocate(bytes)
            : std::shared_ptr<std::byte>(new std::byte[bytes](), std::default_delete<std::byte[]>()));
    const std::int64_t columns = count % 7 == 0 ? 7 : 1;
    return {memory_.back().get(), dtype_, {count / columns, columns}, {}};
  }

  // Where element i lies.
  static std::int64_t offset_of(const ConstTensorView& tensor, std::int64_t i) {
    if (tensor.strides.empty()) return i;
    return i / tensor.shape[1] * tensor.strides[0] + i % tensor.shape[1] * tensor.strides[1];
  }

  double square_sum(std::size_t tensor) const {
    long double sum = 0;
    for (std::int64_t i = 0; i < outputs_[tensor].elements(); ++i) {
      const long double value = value_at(dtype_, outputs_[tensor].data, offset_of(outputs_[tensor], i));
      sum += value * value;
    }
    return static_cast<double>(sum);
  }

  Scope scope_;
  DataType dtype_;
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
};

// Alone and fused, of one element, of some that are no whole line, of many pieces.
const std::vector<std::vector<std::int64_t>> kTogether{
    {1}, {5}, {700}, {1025}, {sanitized(17'507, 70'007)}, {3, 1, 17}, {1, 0, 14, 513, 20'006, 2}};

// Half of them for each dtype, in each layout in turn.
void check_some(Scope scope, const Reduction& how, std::string_view name) {
  for (const DataType dtype : kFloats) {
    for (std::size_t turn = static_cast<std::size_t>(dtype), i = turn % 2; i < kTogether.size(); i += 2) {
      const Layout layout = kLayouts[(turn + i) % std::size(kLayouts)];
      MeasuredTensors(scope, dtype, kTogether[i], layout)
          .check(fmt::format("{}.{}.{}", name, to_string(dtype), i), how);
    }
  }
}

// And each in each layout.
void check_all(Scope scope) {
  for (std::size_t layout = 0; layout < std::size(kLayouts); ++layout) {
    for (std::size_t i = 0; i < kTogether.size(); ++i) {
      MeasuredTensors(scope, kFloats[(layout + i) % std::size(kFloats)], kTogether[i], kLayouts[layout])
          .check(fmt::format("average.{}.{}", layout, i), {ReduceOp::average, 0.5, 3.0});
    }
  }
  check_some(scope, {ReduceOp::sum}, "sum");
  check_some(scope, {ReduceOp::max}, "max");
  check_some(scope, {ReduceOp::adasum, 1.0, 0.5}, "adasum");
  check_some(scope, {ReduceOp::sum, 1.0, 0.5, ReductionOrder::fixed}, "fixed");
  check_some(scope, {ReduceOp::sum, 1.0, 1.0, ReductionOrder::any, Compression::bf16}, "bf16");
  check_some(scope, {ReduceOp::average, 1.0, 1.0, ReductionOrder::any, Compression::fp16}, "fp16");
}

Config with_chunk(std::int64_t chunk) {
  Config config;
  config.ring_chunk = chunk;
  return config;
}

// In small pieces, and in few.
TEST(Measure, IsThatOfTheResultOverLinks) {
  for (const Rank ranks : {1, 2, 3, 4})
    run_ranks(
        ranks, [](Runtime& runtime) { check_all(runtime); }, with_chunk(ranks == 3 ? 1 << 18 : 1 << 13));
}

TEST(Measure, IsThatOfTheResultOnOneHost) {
  for (const Rank ranks : {1, 2, 3, 4})
    run_on_one_host(
        ranks, [](Runtime& runtime) { check_all(runtime); }, with_chunk(ranks == 3 ? 1 << 14 : 1 << 18));
}

TEST(Measure, IsThatOfTheResultOnHostsOfSeveralRanks) {
  MemoryNetwork network(5, 8, 2);
  run_ranks_on(network, 5, [](Runtime& runtime) { check_some(runtime, {}, "x"); });
}

TEST(Measure, IsSharedByAllRanks) {
  auto body = [](Runtime& runtime) {
    for (const Layout layout : {Layout::in_place, Layout::window}) {
      MeasuredTensors tensors(runtime, DataType::float32, {100'000}, layout);
      std::vector<double> share = tensors.reduce(fmt::format("x.{}", static_cast<int>(layout)), {});
      const double own = share.front();
      allreduce_async("share", view(share), view(share), {ReduceOp::sum}, runtime).wait();
      EXPECT_NEAR(own / share.front(), 1.0 / runtime.topology().size, 0.05);
    }
  };
  run_ranks(3, body);
  run_on_one_host(3, body);
}

TEST(Measure, OfAProcessSetIsThatOfItsMembers) {
  for (const std::size_t slots : {0, 8}) {
    run_ranks(
        4,
        [](Runtime& runtime) {
          RankSet some = RankSet::of(1);
          some.add(RankSet::of(3));
          const ProcessSet two = add_process_set(some, runtime),
                           one = add_process_set(RankSet::of(2), runtime);
          if (two.included()) check_some(two, {}, "x");
          if (one.included()) check_some(one, {}, "x");
          check_some(runtime, {}, "x");
        },
        {}, slots);
  }
}

// Nobody asks rank 1 for what it counts.
TEST(Measure, IsThatOfTheResultWhileARankHasJoined) {
  for (const std::size_t slots : {0, 8}) {
    for (const Rank ranks : {2, 4}) {
      run_ranks(
          ranks,
          [](Runtime& runtime) {
            if (runtime.topology().rank != 1) {
              for (int turn = 0; turn < 2; ++turn) {  // the second time by the cache
                check_some(runtime, {}, "x");
                check_some(runtime, {ReduceOp::adasum}, "adasum");
              }
            }
            join(runtime);
            check_some(runtime, {}, "x");
          },
          {}, slots);
    }
  }
}

// What is called while rank 1 has joined is fused with its like only.
TEST(Measure, JoinsOnTheWayDoNotMatter) {
  for (const std::size_t slots : {0, 8}) {
    run_ranks(
        3,
        [](Runtime& runtime) {
          constexpr int kTensors = 30;
          const Rank rank = runtime.topology().rank;
          std::vector<std::vector<double>> values(kTensors, std::vector<double>(700, 1.0));
          std::vector<Handle> handles;
          std::vector<double> shares;
          // Each rank has fewer of them.
          for (int i = 0; i < kTensors - 10 * rank; ++i)
            handles.push_back(allreduce_async(fmt::format("x.{}", i), view(values[i]), view(values[i]),
                                              {.op = ReduceOp::sum, .measure = true}, runtime));
          const Handle joined =
              allreduce_async("before", view(values.back()), view(values.back()), {}, runtime);
          if (rank > 0) join(runtime);
          for (const Handle& handle : handles) {
            handle.wait();
            shares.push_back(handle.share_of_square_sum());
          }
          joined.wait();
          if (rank == 0) join(runtime);
          shares.resize(kTensors);
          allreduce_async("shares", view(shares), view(shares), {ReduceOp::sum}, runtime).wait();
          for (int i = 0; i < kTensors; ++i) {
            const double ranks = i < 10 ? 3 : i < 20 ? 2 : 1;
            EXPECT_DOUBLE_EQ(shares[i], 700 * ranks * ranks) << i;
          }
        },
        {}, slots);
  }
}

// One number tells all ranks, wherever the bad value is and whoever brings it.
TEST(Measure, TellsValuesThatAreNotFinite) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto body = [](Runtime& runtime) {
    for (const DataType dtype : {DataType::float16, DataType::float32, DataType::float64}) {
      for (const std::int64_t count : {21, 9'001}) {
        int number = 0;
        for (const double bad : {kNan, kInfinity, -kInfinity}) {
          for (const std::int64_t i : {std::int64_t{0}, count / 2, count - 1}) {
            MeasuredTensors tensors(runtime, dtype, {count, 100},
                                    number % 2 == 0 ? Layout::window : Layout::apart);
            if (runtime.topology().rank == number % runtime.topology().size) tensors.set_input(i, bad);
            std::vector<double> sums =
                tensors.reduce(fmt::format("{}.{}.{}", to_string(dtype), count, number++), {ReduceOp::sum});
            allreduce_async("sums", view(sums), view(sums), {ReduceOp::sum}, runtime).wait();
            EXPECT_FALSE(std::isfinite(sums[0])) << bad << " at " << i << " of " << count;
            EXPECT_TRUE(std::isfinite(sums[1]));
          }
        }
      }
    }
  };
  for (const Rank ranks : {1, 2, 3}) {
    run_ranks(ranks, body);
    run_on_one_host(ranks, body);
  }
}

// Of finite values that have no room as a sum.
TEST(Measure, TellsWhatOverflows) {
  run_on_one_host(2, [](Runtime& runtime) {
    MeasuredTensors tensors(runtime, DataType::float16, {5'000}, Layout::in_place);
    tensors.set_input(4'000, 60'000.0);
    std::vector<double> sums = tensors.reduce("x", {ReduceOp::sum});
    allreduce_async("sums", view(sums), view(sums), {ReduceOp::sum}, runtime).wait();
    EXPECT_EQ(sums.front(), std::numeric_limits<double>::infinity());
  });
}

TEST(Measure, OnlyWhereItIsAskedFor) {
  for (const std::size_t slots : {0, 8}) {
    run_ranks(
        2,
        [](Runtime& runtime) {
          for (const std::int64_t count : {10, 10'000}) {
            std::vector<float> plain = own_values(runtime, count), measured = plain;
            const Handle first = allreduce_async("plain", view(plain), view(plain), {}, runtime);
            const Handle second =
                allreduce_async("measured", view(measured), view(measured), {.measure = true}, runtime);
            first.wait();
            second.wait();
            std::vector<double> sums{first.share_of_square_sum(), second.share_of_square_sum()};
            allreduce_async("sums", view(sums), view(sums), {ReduceOp::max}, runtime).wait();
            EXPECT_EQ(sums[0], 0.0);
            EXPECT_GT(sums[1], 0.0);
            EXPECT_EQ(plain, measured);  // the same bits
          }
        },
        {}, slots);
  }
}

TEST(Measure, IsOfAllreduceOfFloatingPointOnly) {
  run_ranks(2, [](Runtime& runtime) {
    std::vector<std::int32_t> whole(10);
    std::vector<float> values(10);
    auto words = [](auto submit) -> std::string {
      try {
        submit();
      } catch (const InvalidArgument& error) {
        return error.what();
      }
      return "no exception";
    };
    const Reduction measured{.op = ReduceOp::sum, .measure = true};
    EXPECT_THAT(words([&] { allreduce_async("n", view(whole), view(whole), measured, runtime); }),
                AllOf(HasSubstr("'n'"), HasSubstr("allreduce of int32 is not measured"),
                      HasSubstr("only allreduce of floating point")));
    EXPECT_THAT(words([&] { reducescatter_async("rows", view(values), measured, runtime); }),
                HasSubstr("reducescatter of float32 is not measured"));
  });
}

TEST(Measure, MustBeTheSameOnAllRanks) {
  run_ranks(2, [](Runtime& runtime) {
    std::vector<float> values(10);
    try {
      allreduce_async("x", view(values), view(values), {.measure = runtime.topology().rank == 1}, runtime)
          .wait();
      ADD_FAILURE() << "no exception";
    } catch (const Mismatch& error) {
      EXPECT_THAT(error.what(), HasSubstr("'x': the ranks differ in measure: rank 0 asked for false, rank 1 "
                                          "for true"));
    }
    check_some(runtime, {}, "next");
  });
}

// One operation fails, the next works.
TEST(Measure, ARankWithoutMemoryFailsOneOperation) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::adasum}) {
    MemoryNetwork network(3);
    std::atomic<int> failed{0};
    run_ranks_on(network, 3, [&](Runtime& runtime) {
      const Rank rank = runtime.topology().rank;
      std::vector<float> values(20'000, 1.0F);
      if (rank == 1) network.take_memory_from(rank, 4096);
      const Reduction measured{.op = op, .measure = true};
      const Handle handle = allreduce_async("x", view(values), view(values), measured, runtime);
      if (!handle.wait_status().ok()) ++failed;
      if (rank == 1) network.take_memory_from(rank, std::size_t{1} << 40);
      barrier_async(runtime).wait();
      check_some(runtime, {op}, "next");
    });
    EXPECT_GE(failed.load(), 1);
  }
}

}  // namespace
}  // namespace rueda
