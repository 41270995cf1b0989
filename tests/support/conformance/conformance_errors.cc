// SPDX-License-Identifier: Apache-2.0
// The part of the conformance suite about what goes wrong.
#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/conformance.h"
#include "tests/support/conformance/values.h"

namespace rueda {
namespace {

// Every rank submits `submission` for its rank and must get a Mismatch whose words hold all of `words`.
void expect_mismatch(Runtime& runtime, const std::function<Handle(Rank)>& submit,
                     const std::vector<std::string>& words) {
  const Status status = submit(runtime.topology().rank).wait_status();
  if (status.code != StatusCode::mismatch) {
    throw std::runtime_error(
        fmt::format("expected a Mismatch, got {} '{}'", to_string(status.code), status.message));
  }
  for (const std::string& word : words) {
    if (status.message.find(word) == std::string::npos) {
      throw std::runtime_error(fmt::format("expected '{}' in '{}'", word, status.message));
    }
  }
}

}  // namespace

void check_mismatches(Runtime& runtime) {
  const Rank last = runtime.topology().size - 1;
  if (last == 0) return;  // one rank cannot differ
  TestTensor floats(DataType::float32, {4}), longer(DataType::float32, {5}), doubles(DataType::float64, {4});
  const std::string others = last == 1 ? "rank 0 asked for" : fmt::format("ranks 0-{} asked for", last - 1);
  const std::string who = fmt::format("rank {} for", last);
  auto allreduce = [&](const TestTensor& tensor, Reduction reduction = {}) {
    return allreduce_async("mismatch", tensor.view(), tensor.view(), reduction, runtime);
  };
  auto if_last = [&](const std::function<Handle()>& odd, const std::function<Handle()>& even) {
    return [=](Rank rank) { return rank == last ? odd() : even(); };
  };
  auto even = [&] { return allreduce(floats); };
  expect_mismatch(runtime, if_last([&] { return allreduce(longer); }, even),
                  {"differ in shape", others + " [4]", who + " [5]"});
  expect_mismatch(runtime, if_last([&] { return allreduce(doubles); }, even),
                  {"differ in dtype", "float32", "float64"});
  expect_mismatch(runtime, if_last([&] { return allreduce(floats, {ReduceOp::max}); }, even),
                  {"differ in reduce op", "average", "max"});
  expect_mismatch(runtime,
                  if_last(
                      [&] {
                        return allreduce(floats, {ReduceOp::average, 2.0});
                      },
                      even),
                  {"differ in prescale factor", "1", "2"});
  expect_mismatch(runtime,
                  if_last(
                      [&] {
                        return allreduce(floats, {ReduceOp::average, 1.0, 3.0});
                      },
                      even),
                  {"differ in postscale factor", "3"});
  expect_mismatch(runtime, if_last([&] { return allgather_async("mismatch", floats.view(), runtime); }, even),
                  {"differ in operation", "allgather"});
  expect_mismatch(runtime,
                  [&](Rank rank) {
                    return broadcast_async("mismatch", floats.view(), floats.view(), rank == last ? 1 : 0,
                                           runtime);
                  },
                  {"differ in root rank"});
  expect_mismatch(
      runtime,
      [&](Rank rank) { return gather_async("mismatch", floats.view(), rank == last ? 1 : 0, runtime); },
      {"differ in root rank"});
  expect_mismatch(runtime,
                  [&](Rank rank) {
                    return reduce_async("mismatch", floats.view(), floats.view(), rank == last ? 1 : 0, {},
                                        runtime);
                  },
                  {"differ in root rank"});
  expect_mismatch(
      runtime,
      if_last([&] { return reduce_async("mismatch", floats.view(), floats.view(), 0, {}, runtime); }, even),
      {"differ in operation", "reduce of", "allreduce of"});
  allreduce(floats).wait();  // the name is clean again
}

void check_name_in_flight(Runtime& runtime) {
  TestTensor first(DataType::float32, {8}), second(DataType::float32, {8});
  // Another rank's late part keeps the first in flight when there is another rank; the barrier makes it late.
  const Rank last = runtime.topology().size - 1;
  auto submit = [&](TestTensor& tensor) {
    return allreduce_async("twice", tensor.view(), tensor.view(), {ReduceOp::sum}, runtime);
  };
  if (last > 0 && runtime.topology().rank != last) {
    const Handle one = submit(first);
    std::string words = "no exception";
    try {
      submit(second);
    } catch (const InvalidArgument& error) {
      words = error.what();
    }
    if (words.find("in flight") == std::string::npos)
      throw std::runtime_error("a name twice in flight: got '" + words + "'");
    barrier_async(runtime).wait();
    one.wait();
  } else if (last > 0) {
    barrier_async(runtime).wait();
    submit(first).wait();
  }
  submit(second).wait();
}

}  // namespace rueda
