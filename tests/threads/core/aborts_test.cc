// SPDX-License-Identifier: Apache-2.0
// A Plan that fails on some rank, for want of memory: all that have not finished it are told the same, and
// the next operations give right results.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <set>

#include "core/engine/runtime.h"
#include "core/submission_arguments.h"
#include "rueda/rueda.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

constexpr unsigned kRounds = 10;

// Small, so that rings and streams are cut into many pieces.
Config small_chunks() {
  Config config;
  config.ring_chunk = 256;
  return config;
}

// Purpose: what the ranks were told of each operation; guarded by its mutex.
class Told {
 public:
  void note(const std::string& name, Rank rank, const Status& status) {
    std::lock_guard lock(mutex_);
    statuses_[name][rank] = status;
  }
  bool failed(const std::string& name) {
    std::lock_guard lock(mutex_);
    std::set<std::string> words;
    for (const auto& [rank, status] : statuses_[name]) {
      if (!status.ok()) words.insert(status.message);
    }
    EXPECT_LE(words.size(), 1u) << testing::PrintToString(words);
    return !words.empty();
  }
  // Of those who were told of a failure: the same words. Returns them; `ranks` are who was told.
  std::string words(const std::string& name, const std::set<Rank>& ranks,
                    StatusCode code = StatusCode::backend_error) {
    std::lock_guard lock(mutex_);
    std::set<Rank> told;
    std::set<std::string> words;
    for (const auto& [rank, status] : statuses_[name]) {
      if (status.ok()) continue;
      EXPECT_EQ(status.code, code);
      told.insert(rank);
      words.insert(status.message);
    }
    EXPECT_EQ(words.size(), 1u) << testing::PrintToString(words);
    for (Rank rank : ranks) EXPECT_TRUE(told.contains(rank)) << name << ", rank " << rank;
    return words.empty() ? "" : *words.begin();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::map<Rank, Status>> statuses_;
};

TensorView no_memory(DataType, const Shape&) { throw std::bad_alloc(); }

std::vector<float> gathered_rows(Rank ranks) {
  std::vector<float> rows;
  for (Rank rank = 0; rank < ranks; ++rank)
    rows.insert(rows.end(), 1000 + 100 * rank, static_cast<float>(rank));
  return rows;
}

// An operation that makes its output; rank r brings 1000 + 100 r rows, to each other rank if it is an
// alltoall.
Handle gather(Runtime& runtime, Operation operation, const std::string& name, std::vector<float>& values,
              bool fails) {
  const Rank rank = runtime.topology().rank, size = runtime.topology().size;
  const std::int64_t rows = 1000 + 100 * rank;
  values.assign(rows * (operation == Operation::alltoall ? size : 1), static_cast<float>(rank));
  Submission submission;
  submission.input = view(values);
  submission.request = {name, operation, DataType::float32, submission.input.shape};
  if (fails) submission.allocate = no_memory;
  return runtime.submit(std::move(submission));
}

// Every operation works, and says so.
void expect_all_well(Runtime& runtime, const std::string& prefix) {
  const Rank rank = runtime.topology().rank, size = runtime.topology().size;
  for (int i = 0; i < 5; ++i) {
    const std::string number = prefix + std::to_string(i);
    std::vector<float> rows, parts, sums(3000 + i, static_cast<float>(rank + i)),
        root(500, rank == 0 ? 7.0f : 0.0f);
    std::vector<Handle> handles{
        gather(runtime, Operation::allgather, "rows" + number, rows, false),
        gather(runtime, Operation::alltoall, "parts" + number, parts, false),
        allreduce_async("sum" + number, view(sums), view(sums), {ReduceOp::sum}, runtime),
        broadcast_async("root" + number, view(root), view(root), 0, runtime)};
    for (const Handle& handle : handles) handle.wait();
    for (int each : {0, 1}) {
      const TensorView& output = handles[each].output();
      const auto* data = static_cast<const float*>(output.data);
      ASSERT_EQ(std::vector<float>(data, data + output.elements()), gathered_rows(size)) << each;
    }
    const int sum = size * (size - 1) / 2 + size * i;
    ASSERT_EQ(sums, std::vector<float>(3000 + i, static_cast<float>(sum)));
    ASSERT_EQ(root, std::vector<float>(500, 7.0f));
  }
}

struct Case {
  Rank ranks;
  Operation operation;
  std::size_t shm_slots;
};

class AbortsTest : public testing::TestWithParam<Case> {};

TEST_P(AbortsTest, AnAllocationThatFailsOnOneRankFailsOneOperation) {
  const Rank ranks = GetParam().ranks;
  const Operation operation = GetParam().operation;
  const std::size_t slots = GetParam().shm_slots;
  for (Rank bad = 0; bad < ranks; ++bad) {
    Told told;
    run_ranks(
        ranks,
        [&](Runtime& runtime) {
          const Rank rank = runtime.topology().rank;
          std::vector<float> values;
          const Handle handle = gather(runtime, operation, "gather", values, rank == bad);
          told.note("gather", rank, handle.wait_status());
          expect_all_well(runtime, "after");
          // The name is free.
          gather(runtime, operation, "gather", values, false).wait();
        },
        small_chunks(), slots);
    const std::string words = told.words("gather", {bad});
    EXPECT_NE(words.find("'gather' failed on rank " + std::to_string(bad) + " (process "), std::string::npos);
    EXPECT_NE(words.find("could not allocate the output"), std::string::npos) << words;
    EXPECT_NE(words.find("std::bad_alloc"), std::string::npos) << words;
    EXPECT_NE(words.find("submit it again"), std::string::npos) << words;
  }
}

class ExpectedRowsTest : public testing::TestWithParam<Case> {};

TEST_P(ExpectedRowsTest, OthersAreAMismatch) {
  const Rank ranks = GetParam().ranks;
  std::vector<std::int64_t> come, expected;
  for (Rank rank = 0; rank < ranks; ++rank) come.push_back(1000 + 100 * rank);
  expected = come;
  std::swap(expected[0], expected[1]);  // as many in all
  Told told;
  run_ranks(
      ranks,
      [&](Runtime& runtime) {
        const Rank rank = runtime.topology().rank;
        std::vector<float> values(static_cast<std::size_t>(come[rank] * ranks));
        auto exchange = [&](const std::vector<std::int64_t>& rows) {
          Submission submission;
          submission.input = view(values);
          submission.request = {"exchange", Operation::alltoall, DataType::float32, submission.input.shape};
          submission.expected_splits = std::make_shared<const std::vector<std::int64_t>>(rows);
          return runtime.submit(std::move(submission));
        };
        told.note("exchange", rank, exchange(rank == 1 ? expected : come).wait_status());
        const Handle well = exchange(come);
        well.wait();
        EXPECT_EQ(well.received_splits(), come);
      },
      small_chunks(), GetParam().shm_slots);
  const std::string words = told.words("exchange", {1}, StatusCode::mismatch);
  EXPECT_NE(words.find("its output takes [1100, 1000"), std::string::npos) << words;
  EXPECT_NE(words.find("and [1000, 1100"), std::string::npos) << words;
  EXPECT_NE(words.find("sizes that fit together on all ranks"), std::string::npos) << words;
}

TEST_P(AbortsTest, AnAllocationThatFailsOnAllRanksIsToldOnce) {
  const Rank ranks = GetParam().ranks;
  const Operation operation = GetParam().operation;
  const std::size_t slots = GetParam().shm_slots;
  Told told;
  run_ranks(
      ranks,
      [&](Runtime& runtime) {
        std::vector<float> values;
        const Handle handle = gather(runtime, operation, "gather", values, true);
        told.note("gather", runtime.topology().rank, handle.wait_status());
        expect_all_well(runtime, "after");
      },
      small_chunks(), slots);
  std::set<Rank> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.insert(rank);
  told.words("gather", all);
}

// The last thing that ranks do: nobody leaves before all have been told.
TEST_P(AbortsTest, AFailureAfterAllHaveDepartedIsTold) {
  const Rank ranks = GetParam().ranks;
  const Operation operation = GetParam().operation;
  const std::size_t slots = GetParam().shm_slots;
  for (int round = 0; round < 20; ++round) {
    Told told;
    std::vector<std::vector<float>> values(ranks);
    std::vector<Handle> handles(ranks);
    run_ranks(
        ranks,
        [&](Runtime& runtime) {
          const Rank rank = runtime.topology().rank;
          handles[rank] = gather(runtime, operation, "gather", values[rank], rank == ranks - 1);
        },
        small_chunks(), slots);
    for (Rank rank = 0; rank < ranks; ++rank) told.note("gather", rank, handles[rank].wait_status());
    told.words("gather", {static_cast<Rank>(ranks - 1)});
  }
}

// A buffer that cannot be had: the other ranks are told, or were through before.
TEST(Aborts, OfBuffersThatOneRankCannotHave) {
  constexpr std::size_t kLeast = 10'000;
  for (Rank ranks : {2, 3, 4}) {
    for (Rank bad = 0; bad < ranks; ++bad) {
      MemoryNetwork network(ranks);
      Told told;
      const std::vector<std::string> names{"alone", "strided", "root", "share"};
      run_ranks_on(
          network, ranks,
          [&](Runtime& runtime) {
            const Rank rank = runtime.topology().rank;
            expect_all_well(runtime, "before");
            if (rank == bad) network.take_memory_from(rank, kLeast);
            // Scratch of the ring; the fusion buffer; a contiguous stand-in for a strided tensor.
            std::vector<float> alone(100'000, 1.0f), strided(20'000, 1.0f),
                root(20'000, static_cast<float>(rank)), share(20'000, 1.0f);
            auto every_second = [](std::vector<float>& values) {
              return TensorView{values.data(), DataType::float32, {10'000}, {2}};
            };
            const std::vector<Handle> handles{
                allreduce_async("alone", view(alone), view(alone), {ReduceOp::sum}, runtime),
                allreduce_async("strided", every_second(strided), every_second(strided), {ReduceOp::max},
                                runtime),
                broadcast_async("root", every_second(root), every_second(root), ranks - 1, runtime),
                reducescatter_async("share", every_second(share), {ReduceOp::sum}, runtime)};
            for (std::size_t i = 0; i < names.size(); ++i)
              told.note(names[i], rank, handles[i].wait_status());
            if (handles[2].wait_status().ok()) {
              EXPECT_EQ(root[19'998], static_cast<float>(ranks - 1));
            }
            if (rank == bad) network.take_memory_from(rank, std::numeric_limits<std::size_t>::max());
            barrier_async(runtime).wait();
            expect_all_well(runtime, "after");
          },
          [] {
            Config config = small_chunks();
            config.ring_chunk = 8192;  // so that scratch is larger than what is missing
            return config;
          }());
      EXPECT_NE(told.words("alone", {bad}).find("no memory for partial sums"), std::string::npos);
      EXPECT_NE(told.words("strided", {bad}).find("no memory for the fusion buffer"), std::string::npos);
      EXPECT_NE(told.words("root", {bad}).find("copy of its output"), std::string::npos);
      EXPECT_NE(told.words("share", {bad}).find("copy of its input"), std::string::npos);
    }
  }
}

TEST(Aborts, OfAFusionBufferNameWhatWasFused) {
  MemoryNetwork network(2);
  Told told;
  network.take_memory_from(1, 4096);
  Config config;
  config.cycle_time = 100;
  run_ranks_on(
      network, 2,
      [&](Runtime& runtime) {
        std::vector<std::vector<float>> tensors(10, std::vector<float>(500, 1.0f));
        std::vector<ConstTensorView> inputs;
        std::vector<TensorView> outputs;
        for (auto& tensor : tensors) outputs.push_back(view(tensor)), inputs.emplace_back(view(tensor));
        const auto handles = grouped_allreduce_async("layer", inputs, outputs, {ReduceOp::sum}, runtime);
        for (const Handle& handle : handles)
          told.note("layer", runtime.topology().rank, handle.wait_status());
      },
      config);
  EXPECT_NE(told.words("layer", {0, 1}).find("'layer.0', fused with 9 others, failed on rank 1"),
            std::string::npos)
      << told.words("layer", {});
}

// Whichever comes first: all is over, and nobody waits for ever.
TEST(Aborts, AndALossAtTheSameTimeEnd) {
  for (int round = 0; round < 20; ++round) {
    MemoryNetwork network(3);
    run_ranks_on(network, 3, [&](Runtime& runtime) {
      const Rank rank = runtime.topology().rank;
      std::vector<float> values(1000);
      Submission submission;
      submission.input = view(values);
      submission.request = {"gather", Operation::allgather, DataType::float32, {1000}};
      if (rank == 1) {
        submission.allocate = [&](DataType, const Shape&) -> TensorView {
          network.lose(2);
          throw std::bad_alloc();
        };
      }
      const Status status = runtime.submit(std::move(submission)).wait_status();
      EXPECT_FALSE(status.ok());
      std::vector<float> more(10);
      if (rank != 2) {
        EXPECT_THROW(allreduce_async("x", view(more), view(more), {}, runtime).wait(), PeerLost);
      }
    });
  }
}

// Many operations of overlapping sets at once, in different orders, of which many fail, each on a rank of its
// own.
TEST(Aborts, OfManyAtOnceLeaveTheOthersRight) {
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    constexpr Rank kRanks = 4;
    constexpr int kOperations = 100;
    Told told;
    Config config = small_chunks();
    config.works_in_flight = 1 + static_cast<int>(seed % 8);
    run_ranks(
        kRanks,
        [&](Runtime& runtime) {
          const Rank rank = runtime.topology().rank;
          RankSet odd_ones = RankSet::of(1);
          odd_ones.add(RankSet::of(3));
          const std::vector<ProcessSet> sets{add_process_set(RankSet(0, 3), runtime),
                                             add_process_set(odd_ones, runtime)};
          std::vector<int> order(kOperations);
          std::iota(order.begin(), order.end(), 0);
          std::mt19937 random(seed * kRanks + static_cast<unsigned>(rank));
          std::ranges::shuffle(order, random);
          std::vector<std::vector<float>> values(kOperations);
          std::vector<Handle> handles(kOperations);
          for (int i : order) {
            const ProcessSet* set = i % 3 == 0 ? nullptr : &sets[i % 3 - 1];
            if (set != nullptr && !set->included()) continue;
            const std::uint32_t dice = std::mt19937(seed * 1000 + static_cast<unsigned>(i))();
            Submission submission;
            if (set != nullptr) set_scope(submission, Scope(*set));
            const Rank members = set == nullptr ? kRanks : set->size();
            values[i].assign(600 * members, static_cast<float>(i));
            submission.input = view(values[i]);
            submission.request.name = std::to_string(i);
            submission.request.process_set = set == nullptr ? kWorld : set->id();
            submission.request.operation = i % 2 == 0 ? Operation::allgather : Operation::alltoall;
            submission.request.shape = submission.input.shape;
            if (dice % 2 == 0 && static_cast<Rank>(dice / 2 % kRanks) == rank)
              submission.allocate = no_memory;
            handles[i] = runtime.submit(std::move(submission));
          }
          for (int i : order) {
            const Status status = handles[i].wait_status();
            told.note(std::to_string(i), rank, status);
            if (values[i].empty() || !status.ok()) continue;
            const TensorView& output = handles[i].output();
            const auto* data = static_cast<const float*>(output.data);
            const std::size_t count =
                i % 2 == 0 ? values[i].size() * (values[i].size() / 600) : values[i].size();
            ASSERT_EQ(std::vector<float>(data, data + output.elements()),
                      std::vector<float>(count, static_cast<float>(i)));
          }
          expect_all_well(runtime, "after");
        },
        config, seed % 2 == 0 ? 0 : 8);
    int failed = 0;
    for (int i = 0; i < kOperations; ++i) failed += told.failed(std::to_string(i)) ? 1 : 0;
    EXPECT_GT(failed, kOperations / 10);
    EXPECT_LT(failed, kOperations * 9 / 10);
  }
}

std::vector<Case> cases(const std::vector<Operation>& operations, const std::vector<Rank>& sizes) {
  std::vector<Case> all;
  for (const Rank ranks : sizes)
    for (const Operation operation : operations)
      for (const std::size_t slots : {0, 8}) all.push_back({ranks, operation, slots});
  return all;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  return std::string(to_string(info.param.operation)) + std::to_string(info.param.ranks) + "Slots" +
         std::to_string(info.param.shm_slots);
}

INSTANTIATE_TEST_SUITE_P(Ranks, AbortsTest,
                         testing::ValuesIn(cases({Operation::allgather, Operation::alltoall}, {1, 2, 3, 4})),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Ranks, ExpectedRowsTest, testing::ValuesIn(cases({Operation::alltoall}, {2, 3, 4})),
                         name_of_case);

}  // namespace
}  // namespace rueda
