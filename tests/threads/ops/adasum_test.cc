// SPDX-License-Identifier: Apache-2.0
// Adasum among ranks that are threads, with and without shared memory, against a plain reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/adasum_reference.h"
#include "tests/support/conformance/values.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

constexpr std::size_t kSlots = 8;

using Tensors = std::vector<std::vector<float>>;

std::vector<float> values_of(Rank rank, std::size_t tensor, std::int64_t elements) {
  std::mt19937 random(static_cast<unsigned>(rank) * 1000 + static_cast<unsigned>(tensor));
  std::normal_distribution<float> normal(0.3f, 1.0f);
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (float& value : values) value = normal(random);
  return values;
}

Vector as_vector(const std::vector<float>& values) { return {values.begin(), values.end()}; }

Vector expected_of(const std::vector<Rank>& ranks, std::size_t tensor, std::int64_t elements) {
  std::vector<Vector> vectors;
  for (Rank rank : ranks) vectors.push_back(as_vector(values_of(rank, tensor, elements)));
  return adasum_of(std::move(vectors));
}

std::vector<Rank> first_ranks(Rank count) {
  std::vector<Rank> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void expect_near(const std::vector<float>& got, const Vector& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << what << ' ' << i;
}

// What every rank has in the end. Together: in one Plan, or each alone.
std::vector<Tensors> run(Rank ranks, std::size_t slots, std::int64_t chunk, bool together,
                         const std::vector<std::int64_t>& sizes) {
  std::vector<Tensors> results(ranks);
  Config config;
  config.ring_chunk = chunk;
  MemoryNetwork network(ranks, slots);
  run_ranks_on(
      network, ranks,
      [&](Runtime& runtime) {
        Tensors& own = results[runtime.topology().rank];
        std::vector<ConstTensorView> inputs;
        std::vector<TensorView> outputs;
        for (std::size_t i = 0; i < sizes.size(); ++i)
          own.push_back(values_of(runtime.topology().rank, i, sizes[i]));
        for (auto& tensor : own) outputs.push_back(view(tensor)), inputs.emplace_back(view(tensor));
        if (together) {
          for (const Handle& handle :
               grouped_allreduce_async("all", inputs, outputs, {ReduceOp::adasum}, runtime))
            handle.wait();
          return;
        }
        for (std::size_t i = 0; i < sizes.size(); ++i)
          allreduce_async("one", inputs[i], outputs[i], {ReduceOp::adasum}, runtime).wait();
      },
      config);
  EXPECT_EQ(network.moved_bytes() > 0, ranks > 1);
  return results;
}

TEST(Adasum, IsTheSameBitsEverywhereWhateverCarriesItAndInWhoseCompany) {
  const std::vector<std::int64_t> sizes{1000, 0, 1, 3, 20'011, 64, 7};
  for (Rank ranks : {1, 2, 3, 4, 5, 8}) {
    const std::vector<Tensors> first = run(ranks, kSlots, 1 << 18, true, sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      expect_near(first[0][i], expected_of(first_ranks(ranks), i, sizes[i]), "tensor " + std::to_string(i));
    for (std::size_t slots : {std::size_t{0}, kSlots}) {
      for (std::int64_t chunk : {192, 1 << 18}) {
        for (bool together : {true, false}) {
          const auto results = run(ranks, slots, chunk, together, sizes);
          for (const Tensors& result : results)
            EXPECT_EQ(result, first[0]) << ranks << ' ' << slots << ' ' << chunk << ' ' << together;
        }
      }
    }
  }
}

// Any dtype, sizes, order, fusion, hosts, Works in flight.
TEST(Adasum, OfRandomWorlds) {
  constexpr DataType kFloats[] = {DataType::float16, DataType::bfloat16, DataType::float32,
                                  DataType::float64};
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 world(seed);
    const auto ranks = static_cast<Rank>(1 + world() % 6);
    const std::size_t count = 1 + world() % 40;
    std::vector<DataType> dtypes;
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < count; ++i) {
      dtypes.push_back(kFloats[world() % 4]);
      sizes.push_back(static_cast<std::int64_t>(world() % (world() % 4 == 0 ? 20'000 : 100)));
    }
    Config config;
    config.ring_chunk = world() % 2 == 0 ? 200 : 4096;
    config.fusion_threshold = world() % 2 == 0 ? 1 << 10 : 1 << 20;
    config.works_in_flight = 1 + static_cast<int>(world() % 8);
    MemoryNetwork network(ranks, world() % 2 == 0 ? 0 : kSlots, world() % 3 == 0 ? 2 : 0);
    auto make = [&](Rank rank, std::size_t i) {
      TestTensor tensor(dtypes[i], {sizes[i]});
      const std::vector<float> values = values_of(rank, i, sizes[i]);
      for (std::int64_t e = 0; e < sizes[i]; ++e) tensor.set(e, values[static_cast<std::size_t>(e)]);
      return tensor;
    };
    run_ranks_on(
        network, ranks,
        [&](Runtime& runtime) {
          const Rank rank = runtime.topology().rank;
          std::vector<TestTensor> tensors;
          std::vector<std::size_t> order(count);
          std::vector<Handle> handles(count);
          for (std::size_t i = 0; i < count; ++i) tensors.push_back(make(rank, i));
          std::iota(order.begin(), order.end(), 0);
          std::ranges::shuffle(order, std::mt19937(seed * 100 + static_cast<unsigned>(rank)));
          for (std::size_t i : order) {
            handles[i] = allreduce_async(std::to_string(i), tensors[i].view(), tensors[i].view(),
                                         {ReduceOp::adasum}, runtime);
          }
          for (const Handle& handle : handles) handle.wait();
          for (std::size_t i = 0; i < count; ++i) {
            std::vector<Vector> vectors;
            double largest = 0;
            for (Rank from = 0; from < ranks; ++from) {
              const TestTensor tensor = make(from, i);
              Vector& vector = vectors.emplace_back();
              for (std::int64_t e = 0; e < sizes[i]; ++e) vector.push_back(tensor.get(e));
              for (double each : vector) largest = std::max(largest, std::abs(each));
            }
            const Vector expected = adasum_of(std::move(vectors));
            for (std::int64_t e = 0; e < sizes[i]; ++e) {
              const double due = expected[static_cast<std::size_t>(e)];
              ASSERT_NEAR(tensors[i].get(e), due,
                          relative_tolerance(dtypes[i]) * std::abs(due) + 1e-5 * largest)
                  << "seed " << seed << ", tensor " << i << " of " << to_string(dtypes[i]);
            }
          }
        },
        config);
  }
}

Tensors adasum_of_each(Runtime& runtime, Tensors tensors) {
  for (auto& tensor : tensors)
    allreduce_async("x", view(tensor), view(tensor), {ReduceOp::adasum}, runtime).wait();
  return tensors;
}

TEST(Adasum, OfEqualVectorsIsTheirAverageAndOfOrthogonalOnesTheirSum) {
  for (std::size_t slots : {std::size_t{0}, kSlots}) {
    for (Rank ranks : {2, 3, 4, 5}) {
      run_ranks(
          ranks,
          [&](Runtime& runtime) {
            const auto rank = static_cast<std::size_t>(runtime.topology().rank);
            std::vector<float> equal(100, 3.0f), own(100, 0.0f), zeros(100, 0.0f), first(zeros);
            for (std::size_t i = rank; i < own.size(); i += static_cast<std::size_t>(ranks)) own[i] = 2.0f;
            if (rank == 0) first.assign(100, 5.0f);
            const Tensors results = adasum_of_each(runtime, {equal, own, zeros, first});
            EXPECT_EQ(results[0], std::vector<float>(100, 3.0f));
            EXPECT_EQ(results[1], std::vector<float>(100, 2.0f));
            EXPECT_EQ(results[2], std::vector<float>(100, 0.0f));
            EXPECT_EQ(results[3], std::vector<float>(100, 5.0f));
          },
          {}, slots);
    }
  }
}

TEST(Adasum, OfWhatIsNotFiniteIsNaNInThatTensorAlone) {
  for (std::size_t slots : {std::size_t{0}, kSlots}) {
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      run_ranks(
          3,
          [&](Runtime& runtime) {
            std::vector<float> one(50, 1.0f), other(50, 1.0f);
            if (runtime.topology().rank == 1) one[7] = bad;
            const std::vector<ConstTensorView> inputs{view(one), view(other)};
            const std::vector<TensorView> outputs{view(one), view(other)};
            for (const Handle& handle :
                 grouped_allreduce_async("x", inputs, outputs, {ReduceOp::adasum}, runtime))
              handle.wait();
            for (float each : one) ASSERT_TRUE(std::isnan(each));
            EXPECT_EQ(other, std::vector<float>(50, 1.0f));
          },
          {}, slots);
    }
  }
}

// Rank r has r batches; zeros stand in for it then.
TEST(Adasum, OfRanksThatHaveJoinedIsThatOfTheOthers) {
  for (std::size_t slots : {std::size_t{0}, kSlots}) {
    for (double prescale : {1.0, 0.5}) {
      run_ranks(
          4,
          [&](Runtime& runtime) {
            const Rank rank = runtime.topology().rank;
            for (Rank batch = 0; batch < rank; ++batch) {
              std::vector<float> values = values_of(rank, 1, 3000);
              allreduce_async("x", view(values), view(values), {ReduceOp::adasum, prescale, 1 / prescale},
                              runtime)
                  .wait();
              std::vector<Vector> vectors;
              for (Rank from = 0; from < 4; ++from) {
                const bool there = from > batch;
                vectors.push_back(there ? as_vector(values_of(from, 1, 3000)) : Vector(3000, 0.0));
              }
              expect_near(values, adasum_of(vectors), "batch " + std::to_string(batch));
              if (batch == 2) {
                EXPECT_EQ(values, values_of(3, 1, 3000));
              }
            }
            join(runtime);
          },
          {}, slots);
    }
  }
}

TEST(Adasum, OfAProcessSetIsThatOfItsMembers) {
  for (std::size_t slots : {std::size_t{0}, kSlots}) {
    run_ranks(
        6,
        [&](Runtime& runtime) {
          const Rank rank = runtime.topology().rank;
          RankSet some = RankSet::of(1);
          for (Rank member : {2, 5}) some.add(RankSet::of(member));
          const ProcessSet three = add_process_set(some, runtime);
          const ProcessSet one = add_process_set(RankSet::of(4), runtime);
          std::vector<float> all = values_of(rank, 0, 500), set = values_of(rank, 1, 500);
          Handle first = allreduce_async("x", view(all), view(all), {ReduceOp::adasum}, runtime), second;
          if (three.included())
            second = allreduce_async("x", view(set), view(set), {ReduceOp::adasum}, three);
          if (one.included()) second = allreduce_async("x", view(set), view(set), {ReduceOp::adasum}, one);
          first.wait();
          expect_near(all, expected_of(first_ranks(6), 0, 500), "all");
          if (three.included()) {
            second.wait();
            expect_near(set, expected_of({1, 2, 5}, 1, 500), "set");
          }
          if (one.included()) {
            second.wait();
            EXPECT_EQ(set, values_of(4, 1, 500));
          }
        },
        {}, slots);
  }
}

TEST(Adasum, IsRefusedWhereItMeansNothing) {
  run_ranks(1, [](Runtime& runtime) {
    auto words = [&](auto submit) {
      try {
        submit();
      } catch (const InvalidArgument& error) {
        return std::string(error.what());
      }
      return std::string("accepted");
    };
    std::vector<std::int32_t> whole(4);
    std::vector<float> rows(4);
    EXPECT_EQ(
        words([&] { allreduce_async("x", view(whole), view(whole), {ReduceOp::adasum}, runtime).wait(); }),
        "allreduce 'x': int32 has no adasum; convert to a floating-point type, or use sum.");
    EXPECT_EQ(words([&] { reducescatter_async("x", view(rows), {ReduceOp::adasum}, runtime).wait(); }),
              "reducescatter 'x': adasum is of whole tensors; use allreduce and take the rows, or another "
              "reduction.");
  });
}

// Memory that is missing on one rank fails that operation on all that have not finished it, and no other.
TEST(Adasum, ThatOneRankHasNoMemoryForFailsThere) {
  for (Rank ranks : {2, 3, 4}) {
    for (Rank bad = 0; bad < ranks; ++bad) {
      MemoryNetwork network(ranks);
      run_ranks_on(network, ranks, [&](Runtime& runtime) {
        const Rank rank = runtime.topology().rank;
        if (rank == bad) network.take_memory_from(rank, 10'000);
        std::vector<float> values = values_of(rank, 0, 100'000), strided = values;
        const TensorView second{strided.data(), DataType::float32, {50'000}, {2}};
        const Handle handle = allreduce_async("x", view(values), view(values), {ReduceOp::adasum}, runtime);
        const Handle other = allreduce_async("y", second, second, {ReduceOp::adasum}, runtime);
        const Status status = handle.wait_status();
        EXPECT_TRUE(rank != bad || !status.ok());
        if (!status.ok()) {
          EXPECT_NE(status.message.find("has no memory for its share of all vectors"), std::string::npos)
              << status.message;
          EXPECT_NE(status.message.find("on rank " + std::to_string(bad)), std::string::npos);
        }
        static_cast<void>(other.wait_status());
        if (rank == bad) network.take_memory_from(rank, std::numeric_limits<std::size_t>::max());
        barrier_async(runtime).wait();
        std::vector<float> after = values_of(rank, 1, 5000);
        allreduce_async("x", view(after), view(after), {ReduceOp::adasum}, runtime).wait();
        expect_near(after, expected_of(first_ranks(ranks), 1, 5000), "afterwards");
      });
    }
  }
}

}  // namespace
}  // namespace rueda
