// SPDX-License-Identifier: Apache-2.0
// Process sets, groups and join, on ranks that are threads.
#include "rueda/process_set.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <thread>

#include "core/base/operation_traits.h"
#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

RankSet evens(Rank size) {
  RankSet set;
  for (Rank rank = 0; rank < size; rank += 2) set.add(RankSet::of(rank));
  return set;
}

// Every operation once, in a set whose members are not neighbours.
void check_operations(const ProcessSet& set) {
  const auto size = static_cast<float>(set.size()), own = static_cast<float>(set.rank());
  std::vector<float> values(100, own + 1);
  allreduce_async("sum", view(values), view(values), {ReduceOp::sum}, set).wait();
  EXPECT_EQ(values, std::vector<float>(100, size * (size + 1) / 2));
  std::vector<float> average(3, own);
  allreduce_async("average", view(average), view(average), {}, set).wait();
  EXPECT_FLOAT_EQ(average[0], (size - 1) / 2);

  std::vector<float> rows(static_cast<std::size_t>(set.rank()) + 1, own);
  const Handle gathered = allgather_async("rows", view(rows), set);
  gathered.wait();
  ASSERT_EQ(gathered.output().elements(), set.size() * (set.size() + 1) / 2);
  const auto* all = static_cast<const float*>(gathered.output().data);
  EXPECT_EQ(all[gathered.output().elements() - 1], size - 1);

  const Rank root = set.ranks().at(set.size() - 1);
  std::vector<float> told(5, own);
  broadcast_async("told", view(told), view(told), root, set).wait();
  EXPECT_EQ(told, std::vector<float>(5, size - 1));

  std::vector<float> letters(static_cast<std::size_t>(set.size()), own);
  const Handle exchanged = alltoall_async("letters", view(letters), {}, set);
  exchanged.wait();
  for (Rank index = 0; index < set.size(); ++index)
    EXPECT_EQ(static_cast<const float*>(exchanged.output().data)[index], static_cast<float>(index));

  std::vector<float> shares(static_cast<std::size_t>(2 * set.size()), 1.0f);
  const Handle scattered = reducescatter_async("shares", view(shares), {ReduceOp::sum}, set);
  scattered.wait();
  ASSERT_EQ(scattered.output().elements(), 2);
  EXPECT_EQ(static_cast<const float*>(scattered.output().data)[0], size);
  barrier_async(set).wait();
}

class ProcessSets : public testing::TestWithParam<Rank> {};

TEST_P(ProcessSets, CarryOutEveryOperationAmongTheirMembers) {
  run_ranks(GetParam(), [](Runtime& runtime) {
    const Rank size = runtime.topology().size;
    const ProcessSet even = add_process_set(evens(size), runtime);
    const ProcessSet last = add_process_set(RankSet::of(size - 1), runtime);
    EXPECT_EQ(even.included(), runtime.topology().rank % 2 == 0);
    for (int round = 0; round < 3; ++round) {
      if (even.included()) check_operations(even);
      if (last.included()) check_operations(last);
    }
  });
}

TEST_P(ProcessSets, OverlappingOnesRunAtTheSameTime) {
  run_ranks(GetParam(), [](Runtime& runtime) {
    const Rank size = runtime.topology().size, rank = runtime.topology().rank;
    std::vector<ProcessSet> sets;
    for (Rank first = 0; first + 1 < size; ++first)
      sets.push_back(add_process_set(RankSet(first, first + 2), runtime));
    for (int round = 0; round < 20; ++round) {
      std::vector<std::vector<float>> values(sets.size(), std::vector<float>(1000, 1.0f));
      std::vector<Handle> handles;
      for (std::size_t i = 0; i < sets.size(); ++i) {
        const std::size_t mine = rank % 2 == 0 ? i : sets.size() - 1 - i;  // in different orders
        if (!sets[mine].included()) continue;
        handles.push_back(
            allreduce_async("x", view(values[mine]), view(values[mine]), {ReduceOp::sum}, sets[mine]));
      }
      for (const Handle& handle : handles) handle.wait();
      for (std::size_t i = 0; i < sets.size(); ++i)
        EXPECT_EQ(values[i].back(), sets[i].included() ? 2.0f : 1.0f);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ProcessSets, testing::Values(3, 4, 5));

// Starts a Runtime for each rank with its own lists; why that failed, by rank.
std::vector<Status> start_with(const std::vector<RankLists>& lists,
                               const std::function<void(Runtime&)>& body) {
  const Rank size = static_cast<Rank>(lists.size());
  MemoryNetwork network(size);
  std::vector<Status> statuses(lists.size());
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      RuntimeComponents components = memory_components(network, rank, size, {});
      components.process_sets = lists[rank];
      try {
        Runtime runtime(std::move(components));
        body(runtime);
      } catch (const Error& error) {
        statuses[rank] = {error.code(), error.what()};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(StaticProcessSets, AreThereFromTheStart) {
  const RankLists lists{{0, 2}, {3}, {3, 1, 2}};
  for (const Status& status : start_with({4, lists}, [](Runtime& runtime) {
         const std::vector<ProcessSet> sets = process_sets(runtime);
         ASSERT_EQ(sets.size(), 3u);
         EXPECT_EQ(sets[2].ranks(), RankSet(1, 4));
         for (ProcessSetId id = 1; id <= 3; ++id) {
           EXPECT_EQ(sets[id - 1].id(), id);
           if (sets[id - 1].included()) check_operations(sets[id - 1]);
         }
         EXPECT_EQ(add_process_set(RankSet(0, 2), runtime).id(), 4u);
         EXPECT_THROW(add_process_set(RankSet::of(3), runtime), InvalidArgument);  // there is one
         remove_process_set(sets[1], runtime);
         EXPECT_EQ(add_process_set(RankSet::of(3), runtime).id(), 5u);
       }))
    EXPECT_EQ(status, Status());
}

TEST(StaticProcessSets, DifferencesAndImpossibleOnesAreToldOnEveryRank) {
  const auto never = [](Runtime&) { ADD_FAILURE() << "started"; };
  for (const Status& status : start_with({{{0, 1}}, {{0, 1}}, {}}, never)) {
    EXPECT_EQ(status,
              Status::mismatch("init: the ranks differ in their process sets: ranks 0-1 gave [0-1]; rank 2 "
                               "gave none. Give the same lists in the same order on every rank."));
  }
  for (const RankLists& lists : {RankLists{{0, 3}}, RankLists{{}}, RankLists{{0}, {0}}}) {
    for (const Status& status : start_with({3, lists}, never)) EXPECT_EQ(status, check_static_sets(lists, 3));
  }
}

TEST(ProcessSet, MisuseIsRefusedWithARemedy) {
  run_ranks(3, [](Runtime& runtime) {
    std::vector<float> values(4, 1.0f);
    const ProcessSet set = add_process_set(RankSet(0, 2), runtime);
    EXPECT_THROW(add_process_set(RankSet(0, 2), runtime), InvalidArgument);  // there is one
    EXPECT_THROW(add_process_set(RankSet(2, 4), runtime), InvalidArgument);  // there is no rank 3
    EXPECT_THROW(add_process_set({}, runtime), InvalidArgument);
    if (!set.included()) {
      EXPECT_THROW(allreduce_async("x", view(values), view(values), {}, set), InvalidArgument);
    }
    remove_process_set(set, runtime);
    if (set.included()) {
      EXPECT_THROW(allreduce_async("x", view(values), view(values), {}, set).wait(), InvalidArgument);
    }
    EXPECT_EQ(add_process_set(RankSet(0, 2), runtime).id(), set.id() + 1);
  });
}

TEST(ProcessSet, AnOperationInFlightKeepsItsSet) {
  run_ranks(2, [](Runtime& runtime) {
    const ProcessSet set = add_process_set(RankSet::of(0), runtime);
    const ProcessSet both_again = add_process_set(RankSet::of(1), runtime);
    EXPECT_EQ(both_again.size(), 1);
    remove_process_set(set, runtime);
    remove_process_set(both_again, runtime);
  });
}

TEST(Groups, OneBadMemberFailsAllOfThem) {
  run_ranks(2, [](Runtime& runtime) {
    for (const bool bad : {true, false}) {
      const std::size_t odd = bad && runtime.topology().rank == 1 ? 5 : 4;
      std::vector<std::vector<float>> values{std::vector<float>(4, 1.0f), std::vector<float>(odd, 1.0f)};
      const std::vector<TensorView> views{view(values[0]), view(values[1])};
      const std::vector<ConstTensorView> inputs{views.begin(), views.end()};
      const std::vector<Handle> handles =
          grouped_allreduce_async("group", inputs, views, {ReduceOp::sum}, runtime);
      for (std::size_t i = 0; i < handles.size(); ++i) {
        EXPECT_EQ(handles[i].wait_status().code, bad ? StatusCode::mismatch : StatusCode::ok);
        EXPECT_EQ(values[i][0], bad ? 1.0f : 2.0f);
      }
    }
  });
}

TEST(Groups, AreSubmittedAsAWholeOrNotAtAll) {
  run_ranks(1, [](Runtime& runtime) {
    std::vector<float> values(4, 1.0f);
    const std::vector<TensorView> outputs{view(values), TensorView(nullptr, DataType::float32, {4}, {})};
    const std::vector<ConstTensorView> inputs{view(values), view(values)};
    EXPECT_THROW(grouped_allreduce_async("group", inputs, outputs, {}, runtime), InvalidArgument);
    allreduce_async("group.0", view(values), view(values), {}, runtime).wait();  // the name is free
  });
}

// Rank r has r batches.
TEST(Join, RanksWithLessDataLeaveTheOthersAlone) {
  for (const ReduceOp op :
       {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
    run_ranks(4, [op](Runtime& runtime) {
      const Rank rank = runtime.topology().rank;
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (int batch = 0; batch < rank; ++batch) {
          std::vector<float> wide(1000, 2.0f);
          std::vector<std::int32_t> narrow(3, 3);
          const std::vector<Handle> handles{
              allreduce_async("wide", view(wide), view(wide), {op}, runtime),
              allreduce_async("narrow", view(narrow), view(narrow), {op}, runtime)};
          for (const Handle& handle : handles) handle.wait();
          const int active = 3 - batch;
          const float expected = op == ReduceOp::sum       ? 2.0f * static_cast<float>(active)
                                 : op == ReduceOp::average ? 2.0f * static_cast<float>(active) / 4
                                 : op == ReduceOp::product ? static_cast<float>(1 << active)
                                                           : 2.0f;
          ASSERT_FLOAT_EQ(wide[999], expected) << to_string(op) << " of " << active;
          if (op == ReduceOp::min || op == ReduceOp::max) {
            ASSERT_EQ(narrow[2], 3);
          }
        }
        EXPECT_EQ(join(runtime), 3);
      }
    });
  }
}

// A rank that has joined may be a little behind with what stands in for it: when it submits the same name
// after everybody's join, that has to be an operation of its own.
TEST(Join, NamesComeAgainWhileStandInsRunOut) {
  run_ranks(4, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    for (int epoch = 0; epoch < 150; ++epoch) {
      for (int batch = 0; batch < (rank == epoch % 4 ? 0 : 1); ++batch) {
        std::vector<float> wide(1000, 2.0f), narrow(3, 3.0f);
        Handle first = allreduce_async("wide", view(wide), view(wide), {ReduceOp::sum}, runtime);
        Handle second = allreduce_async("narrow", view(narrow), view(narrow), {ReduceOp::sum}, runtime);
        first.wait();
        second.wait();
        ASSERT_FLOAT_EQ(wide[999], 6.0f) << "epoch " << epoch;
        ASSERT_FLOAT_EQ(narrow[2], 9.0f) << "epoch " << epoch;
      }
      join(runtime);
    }
  });
}

TEST(Join, EveryDtypeHasItsIdentity) {
  run_ranks(2, [](Runtime& runtime) {
    if (runtime.topology().rank == 1) {
      for (int d = 0; d < kDataTypeCount; ++d) {
        for (int o = 0; o < kReduceOpCount; ++o) {
          const auto dtype = static_cast<DataType>(d);
          const auto op = static_cast<ReduceOp>(o);
          if (op == ReduceOp::average || !can_reduce(Operation::allreduce, dtype, op)) continue;
          std::vector<std::byte> values(8 * size_of(dtype)), before;
          for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<std::byte>(dtype == DataType::boolean ? i % 2 : i % 60);
          before = values;
          const TensorView tensor(values.data(), dtype, {8}, {});
          allreduce_async("x", tensor, tensor, {op}, runtime).wait();
          EXPECT_EQ(values, before) << to_string(dtype) << ' ' << to_string(op);
        }
      }
    }
    join(runtime);
  });
}

TEST(Join, OtherOperationsFailUnlessJoinIsFull) {
  for (const bool full : {false, true}) {
    Config config;
    config.full_join = full;
    run_ranks(
        3,
        [full](Runtime& runtime) {
          const Rank rank = runtime.topology().rank;
          if (rank != 1) {
            // Rank 1 may join before or after these; they wait for it either way.
            std::vector<float> rows(2, static_cast<float>(rank));
            const Handle gathered = allgather_async("rows", view(rows), runtime);
            EXPECT_EQ(gathered.wait_status().code, full ? StatusCode::ok : StatusCode::invalid_argument);
            if (full) {
              EXPECT_EQ(gathered.output().elements(), 4);
            }
            std::vector<float> shares(6, 1.0f);
            const Handle scattered = reducescatter_async("shares", view(shares), {ReduceOp::sum}, runtime);
            EXPECT_EQ(scattered.wait_status().ok(), full);
            std::vector<float> told(2, static_cast<float>(rank));
            EXPECT_EQ(broadcast_async("told", view(told), view(told), 0, runtime).wait_status().ok(), full);
            EXPECT_FALSE(broadcast_async("gone", view(told), view(told), 1, runtime).wait_status().ok());
            EXPECT_EQ(alltoall_async("letters", view(told), {1, 0, 1}, runtime).wait_status().ok(), full);
            barrier_async(runtime).wait();
          }
          join(runtime);
        },
        config);
  }
}

TEST(Join, InAProcessSetConcernsItsMembers) {
  run_ranks(3, [](Runtime& runtime) {
    const ProcessSet set = add_process_set(RankSet(0, 2), runtime);
    const Rank rank = runtime.topology().rank;
    std::vector<float> values(4, 1.0f);
    if (rank == 0) allreduce_async("x", view(values), view(values), {ReduceOp::sum}, set).wait();
    if (rank < 2) {
      const Rank last = join(set);
      EXPECT_TRUE(last == 0 || last == 1);
    }
    EXPECT_EQ(values[0], 1.0f);
    allreduce_async("y", view(values), view(values), {ReduceOp::sum}, runtime).wait();
    EXPECT_EQ(values[0], 3.0f);
  });
}

}  // namespace
}  // namespace rueda
