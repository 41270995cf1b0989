// SPDX-License-Identifier: Apache-2.0
// Tensors of rueda::allocate on several hosts: reduced where they lie, to the bits of ordinary ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/values.h"
#include "tests/support/sanitized.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using Sizes = std::vector<Rank>;  // of hosts

const Sizes kHosts[] = {{2, 2}, {1, 2, 1}, {3, 1}, {2, 3, 1}};

// Runs `body` on so many ranks of so many hosts; `rings` for slices of all sizes.
void run_on_hosts(const Sizes& hosts, std::int64_t chunk, const std::function<void(Runtime&)>& body) {
  const Rank ranks = [&] {
    Rank count = 0;
    for (const Rank size : hosts) count += size;
    return count;
  }();
  MemoryNetwork network(ranks, 8);
  network.stand_on_hosts(hosts);
  Config config;
  config.ring_chunk = chunk;
  config.rings = chunk < 4096 ? 2 : 0;
  run_ranks_on(network, ranks, body, config);
}

// Purpose: the same tensor twice, in ordinary memory and, unless this rank does not want it there, in its
// window.
class Twins {
 public:
  Twins(Runtime& runtime, DataType dtype, std::int64_t elements, bool in_window)
      : plain_(static_cast<std::size_t>(elements) * size_of(dtype)),
        elsewhere_(in_window ? 0 : plain_.size()),
        window_(in_window ? runtime.allocate(plain_.size()) : nullptr) {
    ordinary_ = {plain_.data(), dtype, {elements}, {}};
    other_ = ordinary_;
    other_.data = in_window ? window_.get() : elsewhere_.data();
  }

  // Values whose sums are rounded, so that their order shows in the bits.
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> real(0.1, 2.9);
    for (std::int64_t i = 0; i < ordinary_.elements(); ++i)
      set_value(ordinary_.dtype, ordinary_.data, i, real(random));
    if (!plain_.empty()) std::memcpy(other_.data, ordinary_.data, plain_.size());
  }
  bool alike() const {
    return plain_.empty() || std::memcmp(ordinary_.data, other_.data, plain_.size()) == 0;
  }
  const TensorView& ordinary() const { return ordinary_; }
  const TensorView& other() const { return other_; }

 private:
  std::vector<std::byte> plain_;
  std::vector<std::byte> elsewhere_;
  std::shared_ptr<std::byte> window_;
  TensorView ordinary_;
  TensorView other_;
};

void expect_same_bits(Runtime& runtime, const Reduction& how, DataType dtype, std::int64_t elements,
                      bool in_window, unsigned seed) {
  Twins twins(runtime, dtype, elements, in_window);
  twins.fill(seed * 100 + static_cast<unsigned>(runtime.topology().rank));
  Handle ordinary = allreduce_async("ordinary", twins.ordinary(), twins.ordinary(), how, runtime);
  ordinary.wait();
  Handle other = allreduce_async("other", twins.other(), twins.other(), how, runtime);
  other.wait();
  ASSERT_TRUE(twins.alike()) << to_string(dtype) << " " << to_string(how.op) << " " << elements;
  if (how.measure) {
    ASSERT_EQ(ordinary.share_of_square_sum(), other.share_of_square_sum());
  }
}

TEST(WindowOverHosts, HasTheBitsOfOrdinaryMemory) {
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                               ReduceOp::product};
  for (const Sizes& hosts : kHosts) {
    for (const std::int64_t chunk : {768, 1 << 18}) {
      run_on_hosts(hosts, chunk, [&](Runtime& runtime) {
        unsigned turn = 0;
        for (const std::int64_t elements : {0, 1, 1025, sanitized(4'003, 30'003)}) {
          for (int dtype = 0; dtype < kDataTypeCount; ++dtype, ++turn) {
            Reduction how{kOps[turn % 5]};
            if (static_cast<DataType>(dtype) == DataType::boolean) how.op = ReduceOp::max;
            how.prescale_factor = turn % 3 == 0 && dtype != static_cast<int>(DataType::boolean) ? 0.5 : 1;
            // All in their windows; the tensors of some ranks are not.
            const bool mixed = turn % 4 == 1 && runtime.topology().rank == static_cast<Rank>(turn) % 3;
            expect_same_bits(runtime, how, static_cast<DataType>(dtype), elements, !mixed, turn);
          }
        }
      });
    }
  }
}

TEST(WindowOverHosts, CompressionsAndSquaresAreTheSame) {
  for (const Sizes& hosts : kHosts) {
    run_on_hosts(hosts, 4096, [](Runtime& runtime) {
      for (const Compression compression : {Compression::none, Compression::bf16, Compression::fp16}) {
        Reduction how{ReduceOp::average};
        how.compression = compression;
        how.measure = true;
        expect_same_bits(runtime, how, DataType::float32, sanitized(10'001, 50'001), true, 7);
      }
      Reduction share{ReduceOp::sum};
      share.compression = Compression::topk;
      share.compression_share = 0.1;
      for (unsigned step = 0; step < 3; ++step)  // what is kept back comes again, by each name
        expect_same_bits(runtime, share, DataType::float32, sanitized(8'000, 20'000), true, step);
    });
  }
}

// Tensors that share slices, and some of them are not in a window on one rank. Sums are exact here: what is
// fused differs from run to run.
TEST(WindowOverHosts, IsFused) {
  for (const Sizes& hosts : kHosts) {
    run_on_hosts(hosts, 4096, [](Runtime& runtime) {
      const Topology& topology = runtime.topology();
      for (unsigned round = 0; round < sanitized(3U, 6U); ++round) {
        std::vector<std::shared_ptr<std::byte>> memory;
        std::vector<Handle> handles;
        for (std::size_t i = 0; i < 20; ++i) {
          const std::size_t elements = 1 + 397 * i;
          const bool ordinary = round % 3 == 2 && i % 7 == 0 && topology.rank == 1;
          memory.push_back(ordinary
                               ? std::shared_ptr<std::byte>(new std::byte[elements * sizeof(float)],
                                                            [](const std::byte* block) { delete[] block; })
                               : runtime.allocate(elements * sizeof(float)));
          const std::span values(reinterpret_cast<float*>(memory.back().get()), elements);
          for (std::size_t k = 0; k < elements; ++k)
            values[k] = static_cast<float>(static_cast<std::size_t>(topology.rank) * 3 + i + k % 50);
          handles.push_back(
              allreduce_async(std::to_string(i), view(values), view(values), {ReduceOp::sum}, runtime));
        }
        const auto ranks = static_cast<std::size_t>(topology.size), ranks_sum = ranks * (ranks - 1) / 2;
        for (std::size_t i = 0; i < handles.size(); ++i) {
          handles[i].wait();
          const auto* values = reinterpret_cast<const float*>(memory[i].get());
          for (std::size_t k = 0; k < 1 + 397 * i; ++k)
            ASSERT_EQ(values[k], static_cast<float>(3 * ranks_sum + ranks * (i + k % 50))) << i << ", " << k;
        }
      }
    });
  }
}

// A rank that finds no memory for its journeys when others may be in its tensors: all hear why, and the next
// operation works.
TEST(WindowOverHosts, ARankWithoutMemoryFailsOneOperation) {
  const Sizes hosts{2, 3};
  MemoryNetwork network(5, 8);
  network.stand_on_hosts(hosts);
  std::atomic<int> failed{0};
  run_ranks_on(network, 5, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const std::shared_ptr<std::byte> memory = runtime.allocate(2'000'000);
    const std::span values(reinterpret_cast<float*>(memory.get()), 500'000);
    for (Rank bad = 0; bad < 5; ++bad) {
      if (rank == bad) network.take_memory_from(rank, 4096);
      std::ranges::fill(values, 1.0f);
      const Status status =
          allreduce_async("fails", view(values), view(values), {ReduceOp::sum}, runtime).wait_status();
      EXPECT_FALSE(status.ok()) << "rank " << bad;
      failed += status.ok() ? 0 : 1;
      network.take_memory_from(rank, std::numeric_limits<std::size_t>::max());
      // What is the rank's own again stays as it is.
      std::ranges::fill(values, -1.0f);
      barrier_async(runtime).wait();
      ASSERT_TRUE(std::ranges::all_of(values, [](float value) { return value == -1.0f; }));
      std::ranges::fill(values, static_cast<float>(rank));
      allreduce_async("next", view(values), view(values), {ReduceOp::sum}, runtime).wait();
      ASSERT_TRUE(std::ranges::all_of(values, [](float value) { return value == 10.0f; }));
    }
  });
  EXPECT_EQ(failed, 25);
}

// Members of a set that are a part of their hosts, in their windows; the others do something else.
TEST(WindowOverHosts, ProcessSetsOfSomeRanksOfAHost) {
  run_on_hosts({3, 2}, 1 << 14, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const ProcessSet some = add_process_set(RankSet(1, 4), runtime);
    const std::shared_ptr<std::byte> memory = runtime.allocate(400'000);
    const std::span values(reinterpret_cast<float*>(memory.get()), 100'000);
    for (int i = 0; i < 5; ++i) {
      std::ranges::fill(values, static_cast<float>(rank));
      if (rank >= 1 && rank < 4) {
        allreduce_async("x", view(values), view(values), {ReduceOp::sum}, some).wait();
        ASSERT_TRUE(std::ranges::all_of(values, [](float value) { return value == 6.0f; }));
      }
      std::ranges::fill(values, static_cast<float>(rank));
      allreduce_async("y", view(values), view(values), {ReduceOp::sum}, runtime).wait();
      ASSERT_TRUE(std::ranges::all_of(values, [](float value) { return value == 10.0f; }));
    }
  });
}

}  // namespace
}  // namespace rueda
