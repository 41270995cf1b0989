// SPDX-License-Identifier: Apache-2.0
// A Plan that fails on some rank, for want of memory: all that have not finished it are told the same, and
// the next operations give right results.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <new>
#include <set>

#include "core/rueda.h"
#include "tests/support/memory_world.h"

namespace rueda {
namespace {

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
  // Of those who were told of a failure: the same words. Returns them; `ranks` are who was told.
  std::string words(const std::string& name, const std::set<Rank>& ranks) {
    std::lock_guard lock(mutex_);
    std::set<Rank> told;
    std::set<std::string> words;
    for (const auto& [rank, status] : statuses_[name]) {
      if (status.ok()) continue;
      EXPECT_EQ(status.code, StatusCode::backend_error);
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
  const auto [rank, size] = std::pair(runtime.topology().rank, runtime.topology().size);
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
  const auto [rank, size] = std::pair(runtime.topology().rank, runtime.topology().size);
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
    const float sum = static_cast<float>(size * (size - 1) / 2 + size * i);
    ASSERT_EQ(sums, std::vector<float>(3000 + i, sum));
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
  const auto [ranks, operation, slots] = GetParam();
  for (Rank bad = 0; bad < ranks; ++bad) {
    Told told;
    run_ranks(
        ranks,
        [&, operation = operation](Runtime& runtime) {
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

TEST_P(AbortsTest, AnAllocationThatFailsOnAllRanksIsToldOnce) {
  const auto [ranks, operation, slots] = GetParam();
  Told told;
  run_ranks(
      ranks,
      [&, operation = operation](Runtime& runtime) {
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
  const auto [ranks, operation, slots] = GetParam();
  for (int round = 0; round < 20; ++round) {
    Told told;
    std::vector<std::vector<float>> values(ranks);
    std::vector<Handle> handles(ranks);
    run_ranks(
        ranks,
        [&, operation = operation](Runtime& runtime) {
          const Rank rank = runtime.topology().rank;
          handles[rank] = gather(runtime, operation, "gather", values[rank], rank == ranks - 1);
        },
        small_chunks(), slots);
    for (Rank rank = 0; rank < ranks; ++rank) told.note("gather", rank, handles[rank].wait_status());
    told.words("gather", {static_cast<Rank>(ranks - 1)});
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (Rank ranks : {1, 2, 3, 4}) {
    for (Operation operation : {Operation::allgather, Operation::alltoall})
      for (std::size_t slots : {0, 8}) all.push_back({ranks, operation, slots});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ranks, AbortsTest, testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(to_string(info.param.operation)) + std::to_string(info.param.ranks) + "Slots" +
         std::to_string(info.param.shm_slots);
});

}  // namespace
}  // namespace rueda
