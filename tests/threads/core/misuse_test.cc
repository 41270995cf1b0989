// SPDX-License-Identifier: Apache-2.0
// What goes wrong in groups, joins and process sets by the program's own fault: words on all ranks, nothing
// hangs, and the next operation works. The ranks are threads.
#include <gmock/gmock.h>

#include "core/engine/runtime.h"
#include "core/submission_arguments.h"
#include "rueda/process_set.h"
#include "rueda/rueda.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using ::testing::HasSubstr;

// Purpose: tensors of ones for a group.
class Group {
 public:
  explicit Group(const std::vector<std::size_t>& sizes) {
    for (std::size_t size : sizes) values_.emplace_back(size, 1.0f);
    for (auto& each : values_) views_.push_back(view(each));
  }
  std::vector<Handle> submit(Runtime& runtime) {
    const std::vector<ConstTensorView> inputs(views_.begin(), views_.end());
    return grouped_allreduce_async("g", inputs, views_, {ReduceOp::sum}, runtime);
  }
  Handle submit_alone(std::size_t i, Runtime& runtime) {
    return allreduce_async("g." + std::to_string(i), views_[i], views_[i], {ReduceOp::sum}, runtime);
  }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<TensorView> views_;
};

void expect_all(const std::vector<Handle>& handles, StatusCode code) {
  for (const Handle& handle : handles) {
    const Status status = handle.wait_status();
    EXPECT_EQ(status.code, code) << status.message;
  }
}

void expect_that_it_works(Runtime& runtime) {
  for (int again = 0; again < 2; ++again) expect_all(Group({4, 4}).submit(runtime), StatusCode::ok);
}

TEST(Groups, ANameInFlightRefusesTheWholeGroup) {
  run_ranks(2, [](Runtime& runtime) {
    Group group({4, 4}), other({4, 4});
    if (runtime.topology().rank == 0) {
      const Handle first = other.submit_alone(0, runtime);
      EXPECT_THROW(group.submit(runtime), InvalidArgument);
      barrier_async(runtime).wait();
      first.wait();
    } else {
      barrier_async(runtime).wait();
      other.submit_alone(0, runtime).wait();
    }
    expect_that_it_works(runtime);
  });
}

// Who hears that one of a group has failed may submit all of it again at once.
TEST(Groups, AllNamesAreFreeWhenOneHasFailed) {
  run_ranks(2, [](Runtime& runtime) {
    for (int step = 0; step < 200; ++step) {
      Group wrong(runtime.topology().rank == 1 ? std::vector<std::size_t>{4, 5, 4, 4}
                                               : std::vector<std::size_t>{4, 4, 4, 4});
      EXPECT_FALSE(wrong.submit(runtime).front().wait_status().ok());
      Group right({4, 4, 4, 4});
      for (const Handle& handle : right.submit(runtime)) EXPECT_TRUE(handle.wait_status().ok());
    }
  });
}

TEST(Groups, OneMismatchFailsAll) {
  run_ranks(3, [](Runtime& runtime) {
    for (std::size_t bad = 0; bad < 3; ++bad) {
      std::vector<std::size_t> sizes{4, 4, 4};
      if (runtime.topology().rank == 1) sizes[bad] = 5;
      Group group(sizes);
      expect_all(group.submit(runtime), StatusCode::mismatch);
    }
    expect_that_it_works(runtime);
  });
}

TEST(Groups, AGroupOnSomeRanksOnlyFails) {
  for (Rank alone : {0, 1}) {
    run_ranks(2, [alone](Runtime& runtime) {
      Group group({4, 4});
      if (runtime.topology().rank == alone) {
        expect_all({group.submit_alone(0, runtime)}, StatusCode::mismatch);
      } else {
        expect_all(group.submit(runtime), StatusCode::mismatch);
      }
      expect_that_it_works(runtime);
    });
  }
}

// Every tensor ends, also those that one rank alone has asked for, and the next call of that name is the same
// one everywhere: each rank adds 1 in the first, 2 in the second, ...
TEST(Groups, OfDifferentSizesFailAsAWhole) {
  for (const Rank ranks : {2, 3, 5}) {
    run_ranks(ranks, [ranks](Runtime& runtime) {
      const Rank rank = runtime.topology().rank;
      for (int step = 1; step < 40; ++step) {
        const bool fails = step % 3 != 0;
        const std::size_t size = 2 + (fails && rank == step % ranks ? 1 + step % 2 : 0);
        std::vector<std::vector<float>> values(step % 5 == 0 && !fails ? 4 : size,
                                               std::vector<float>(4, static_cast<float>(step)));
        std::vector<TensorView> views;
        for (std::vector<float>& each : values) views.push_back(view(each));
        const std::vector<ConstTensorView> inputs(views.begin(), views.end());
        expect_all(grouped_allreduce_async("g", inputs, views, {ReduceOp::sum}, runtime),
                   fails ? StatusCode::mismatch : StatusCode::ok);
        for (const std::vector<float>& each : values)
          EXPECT_EQ(each[3], static_cast<float>(fails ? step : step * ranks));
      }
    });
  }
}

Submission sum_of(const std::string& name, std::vector<float>& values) {
  Submission submission;
  submission.request = {
      name, Operation::allreduce, DataType::float32, {static_cast<std::int64_t>(values.size())}};
  submission.input = submission.output = view(values);
  return submission;
}

std::vector<Handle> sum_together(const std::vector<std::string>& names,
                                 std::vector<std::vector<float>>& values, Runtime& runtime) {
  std::vector<Submission> group;
  for (std::size_t i = 0; i < names.size(); ++i) group.push_back(sum_of(names[i], values[i]));
  return runtime.submit_group(std::move(group));
}

TEST(Groups, MayBeSubmittedInAnyOrder) {
  run_ranks(2, [](Runtime& runtime) {
    for (int step = 0; step < 3; ++step) {
      std::vector<std::vector<float>> values;
      std::vector<std::string> names;
      for (int i = 0; i < 12; ++i) {
        const int number = runtime.topology().rank == 0 ? i : 11 - i;
        names.push_back("g." + std::to_string(number));
        values.emplace_back(4, static_cast<float>(number));
      }
      expect_all(sum_together(names, values, runtime), StatusCode::ok);
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(values[i][0], 2.0f * static_cast<float>(runtime.topology().rank == 0 ? i : 11 - i));
    }
  });
}

// A join that does not wait.
Handle join_async(const std::string& name, Runtime& runtime) {
  Submission submission;
  submission.request.name = name;
  submission.request.operation = Operation::join;
  submission.request.dtype = DataType::uint8;
  submission.request.shape = {0};
  submission.request.root = runtime.topology().rank;
  submission.input = ConstTensorView(nullptr, DataType::uint8, {0});
  return runtime.submit(std::move(submission));
}

// Rank 1 joins with {a, c} in flight; the others go on with {b, c}, in which c is something else, and then do
// their part of {a, c}.
TEST(Groups, OfARankThatHasJoinedAreNotMixedUp) {
  run_ranks(3, [](Runtime& runtime) {
    std::vector<std::vector<float>> first(2, std::vector<float>(4, 1.0f)),
        other(2, std::vector<float>(9, 5.0f));
    const bool joins = runtime.topology().rank == 1;
    if (!joins) expect_all(sum_together({"b", "c"}, other, runtime), StatusCode::ok);
    const std::vector<Handle> handles = sum_together({"a", "c"}, first, runtime);
    join_async("end", runtime).wait();
    expect_all(handles, StatusCode::ok);
    for (const std::vector<float>& each : first) EXPECT_EQ(each, std::vector<float>(4, 3.0f));
    for (const std::vector<float>& each : other) EXPECT_EQ(each, std::vector<float>(9, joins ? 5.0f : 10.0f));
  });
}

TEST(Groups, ThatCannotBeOneAreRefused) {
  run_ranks(2, [](Runtime& runtime) {
    const ProcessSet set = add_process_set(RankSet::of(0), runtime);
    if (runtime.topology().rank != 0) return;
    std::vector<float> values(4);
    auto words_of = [&](Submission second) {
      std::vector<Submission> group;
      group.push_back(sum_of("a", values));
      group.push_back(std::move(second));
      try {
        runtime.submit_group(std::move(group));
      } catch (const InvalidArgument& error) {
        return std::string(error.what());
      }
      return std::string("taken");
    };
    EXPECT_THAT(words_of(sum_of("a", values)), HasSubstr("it has two operations named 'a'"));
    EXPECT_THAT(words_of(sum_of("d", values)), HasSubstr("'a' and 'd' write to the same memory"));
    Submission join;
    join.request = {"b", Operation::join, DataType::uint8, {0}};
    join.input = ConstTensorView(nullptr, DataType::uint8, {0});
    EXPECT_THAT(words_of(std::move(join)), HasSubstr("join 'b' moves no data; submit it alone"));
    std::vector<float> others(4);
    Submission of_set = sum_of("c", others);
    set_scope(of_set, Scope(set));
    EXPECT_THAT(words_of(std::move(of_set)), HasSubstr("several process sets"));
  });
}

TEST(Join, WhoHasJoinedSubmitsNothing) {
  for (std::size_t slots : {0, 8}) {
    run_ranks(
        3,
        [](Runtime& runtime) {
          const Rank rank = runtime.topology().rank;
          std::vector<float> small(4, 1.0f), large(100'000, 1.0f);
          for (int epoch = 0; epoch < 20; ++epoch) {
            const std::string name = "join." + std::to_string(epoch);
            if (rank == 2) {
              const Handle joined = join_async(name, runtime);
              const Handle refused = allreduce_async("t", view(large), view(large), {ReduceOp::min}, runtime);
              const Handle again = join_async("again", runtime);
              EXPECT_THAT(refused.wait_status().message, HasSubstr("rank 2 has joined"));
              EXPECT_THAT(again.wait_status().message, HasSubstr("rank 2 has joined"));
              joined.wait();
            } else {
              for (int i = 0; i < 3; ++i)
                allreduce_async("t", view(small), view(small), {ReduceOp::min}, runtime).wait();
              join_async(name, runtime).wait();
            }
          }
          allreduce_async("t", view(small), view(small), {ReduceOp::min}, runtime).wait();
        },
        {}, slots);
  }
}

TEST(ProcessSetMisuse, ACallThatIsRefusedHereIsNotCounted) {
  run_ranks(2, [](Runtime& runtime) {
    if (runtime.topology().rank == 1) {
      EXPECT_THROW(add_process_set({}, runtime), InvalidArgument);
      EXPECT_THROW(add_process_set(RankSet(0, 7), runtime), InvalidArgument);
    }
    EXPECT_EQ(add_process_set(RankSet(0, 1), runtime).size(), 1);
  });
}

TEST(ProcessSetMisuse, ASetIsRemovedOnce) {
  run_ranks(2, [](Runtime& runtime) {
    const ProcessSet set = add_process_set(RankSet(0, 1), runtime);
    remove_process_set(set, runtime);
    try {
      remove_process_set(set, runtime);
      ADD_FAILURE() << "removed twice";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("process set 1 has been removed before"));
    }
  });
}

}  // namespace
}  // namespace rueda
