// SPDX-License-Identifier: Apache-2.0
// Every operation on 1 to 5 ranks that are threads.
#include <gtest/gtest.h>

#include "tests/support/conformance.h"
#include "tests/support/memory_world.h"

namespace rueda {
namespace {

// Small chunks, so that rings and streams are cut into many pieces; and the defaults.
class OperationsTest : public testing::TestWithParam<std::tuple<Rank, std::int64_t>> {
 protected:
  void run(const std::function<void(Runtime&)>& check) {
    Config config;
    config.ring_chunk = std::get<1>(GetParam());
    run_ranks(std::get<0>(GetParam()), check, config);
  }
};

TEST_P(OperationsTest, Allreduce) { run(check_allreduce); }
TEST_P(OperationsTest, Allgather) { run(check_allgather); }
TEST_P(OperationsTest, Broadcast) { run(check_broadcast); }
TEST_P(OperationsTest, Alltoall) { run(check_alltoall); }
TEST_P(OperationsTest, Reducescatter) { run(check_reducescatter); }
TEST_P(OperationsTest, Strides) { run(check_strides); }
TEST_P(OperationsTest, Barrier) { run(check_barrier); }
TEST_P(OperationsTest, Mismatches) { run(check_mismatches); }
TEST_P(OperationsTest, NameInFlight) { run(check_name_in_flight); }

INSTANTIATE_TEST_SUITE_P(Ranks, OperationsTest,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5),
                                          testing::Values(std::int64_t{192}, std::int64_t{1} << 18)),
                         [](const auto& info) {
                           return "Ranks" + std::to_string(std::get<0>(info.param)) + "Chunk" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace rueda
