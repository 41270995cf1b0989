// SPDX-License-Identifier: Apache-2.0
// Outputs that the program gives, waits for a limited time, and the end of a job that does not wait for
// others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/engine/runtime.h"
#include "rueda/process_set.h"
#include "rueda/rueda.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Of `input`, into `output`.
Submission into(Operation operation, std::vector<float>& input, std::vector<float>& output) {
  Submission submission;
  submission.input = view(input);
  submission.output = view(output);
  submission.into_output = true;
  submission.request.name = "x";
  submission.request.operation = operation;
  submission.request.dtype = DataType::float32;
  submission.request.shape = submission.input.shape;
  submission.request.reduce_op = ReduceOp::sum;
  return submission;
}

template <class Body>
void with_memory_and_without(const Body& body) {
  run_ranks(2, body);
  run_on_one_host(2, body);
}

TEST(GivenOutput, TakesWhatAnOperationFinds) {
  with_memory_and_without([](Runtime& runtime) {
    const auto rank = static_cast<float>(runtime.topology().rank);
    std::vector<float> input{rank, rank + 10}, gathered(4), sum(1);
    runtime.submit(into(Operation::allgather, input, gathered)).wait();
    EXPECT_EQ(gathered, (std::vector<float>{0, 10, 1, 11}));
    runtime.submit(into(Operation::alltoall, input, gathered = {7, 7})).wait();
    EXPECT_EQ(gathered, rank == 0 ? (std::vector<float>{0, 1}) : (std::vector<float>{10, 11}));
    runtime.submit(into(Operation::reducescatter, input, sum)).wait();
    EXPECT_EQ(sum.front(), rank == 0 ? 1 : 21);
  });
}

TEST(GivenOutput, OfAnotherSizeFailsOnAllRanks) {
  with_memory_and_without([](Runtime& runtime) {
    std::vector<float> input(2), output(runtime.topology().rank == 0 ? 4 : 3);
    const Status status = runtime.submit(into(Operation::allgather, input, output)).wait_status();
    EXPECT_EQ(status.code, StatusCode::backend_error);
    EXPECT_THAT(status.message, HasSubstr("the one that the program gave has 3 elements, and 4 come"));
  });
}

TEST(GivenOutput, WithGapsIsRefused) {
  run_ranks(1, [](Runtime& runtime) {
    std::vector<float> input(2), output(4);
    Submission submission = into(Operation::allgather, input, output);
    submission.output = {output.data(), DataType::float32, {2}, {2}};
    EXPECT_THROW(runtime.submit(std::move(submission)), InvalidArgument);
  });
}

TEST(WaitUntil, EndsAtTheDeadlineAndCanBeRepeated) {
  std::promise<void> looked;
  const std::shared_future<void> seen = looked.get_future().share();
  run_ranks(2, [&](Runtime& runtime) {
    std::vector<float> values(100, 1.0F);
    if (runtime.topology().rank == 1) seen.wait();
    const Handle handle = allreduce_async("x", view(values), view(values), {ReduceOp::sum}, runtime);
    if (runtime.topology().rank == 0) {
      const Time begun = clock_now();
      EXPECT_FALSE(handle.wait_until(begun + milliseconds(20)));
      EXPECT_GE(clock_now() - begun, milliseconds(20));
      EXPECT_FALSE(handle.done());
      looked.set_value();
    }
    EXPECT_TRUE(handle.wait_until(clock_now() + std::chrono::minutes(1)));
    EXPECT_EQ(values.front(), 2.0F);
  });
}

TEST(Abort, FailsOperationsOnAllRanks) {
  with_memory_and_without([](Runtime& runtime) {
    std::vector<float> values(4);
    if (runtime.topology().rank == 1) runtime.abort();
    Status status;
    for (int i = 0; i < 2 && status.ok(); ++i) {  // one may be complete before
      status = allreduce_async("x", view(values), view(values), {}, runtime).wait_status();
      if (runtime.topology().rank == 1) status = runtime.failure();
    }
    if (runtime.topology().rank == 0) {
      EXPECT_THAT(status.message, HasSubstr("rank 1 failed: its program has aborted the job"));
    }
  });
}

TEST(ShutdownWithin, DoesNotWaitForOthers) {
  std::promise<void> tried;
  const std::shared_future<void> seen = tried.get_future().share();
  run_ranks(2, [&](Runtime& runtime) {
    if (runtime.topology().rank == 0) {
      EXPECT_FALSE(runtime.shutdown_within(milliseconds(20)));
      tried.set_value();
    } else {
      seen.wait();
    }
    EXPECT_TRUE(runtime.shutdown_within(std::chrono::minutes(1)));
  });
}

}  // namespace
}  // namespace rueda
