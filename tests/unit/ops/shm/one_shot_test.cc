// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/one_shot.h"

#include <gtest/gtest.h>

#include <string>

namespace rueda {
namespace {

TEST(OneShot, OnlyWhatFitsIsTaken) {
  auto plan = [](DataType dtype, std::int64_t offset, std::int64_t elements) {
    Plan plan;
    plan.dtype = dtype;
    Request request;
    request.name = "x";
    request.dtype = dtype;
    request.shape = {elements};
    plan.tensors = {{0, true, std::make_shared<const Request>(request), offset}};
    return plan;
  };
  EXPECT_TRUE(one_shot::fits(plan(DataType::float32, 0, 1024)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float32, 0, 1025)));
  EXPECT_TRUE(one_shot::fits(plan(DataType::float32, 64, 1008)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float32, 64, 1009)));
  EXPECT_TRUE(one_shot::fits(plan(DataType::bfloat16, 0, 1024)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::bfloat16, 0, 1025)));
  EXPECT_TRUE(one_shot::fits(plan(DataType::uint8, 0, 4096)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float32, 2, 1)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float32, -64, 1)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float32, 0, -1)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float64, std::int64_t{1} << 62, std::int64_t{1} << 62)));
  // Of several tensors, by all they take.
  auto fused = [](std::int64_t tensors, std::int64_t elements) {
    Plan plan;
    for (std::int64_t i = 0; i < tensors; ++i) {
      Request request;
      request.name = std::to_string(i);
      request.shape = {elements};
      assign_offset(plan, plan.tensors.emplace_back(0, true, std::make_shared<const Request>(request)));
    }
    return plan;
  };
  EXPECT_EQ(fused(64, 1).buffer_bytes, 4096);
  EXPECT_TRUE(one_shot::fits(fused(64, 1)));
  EXPECT_FALSE(one_shot::fits(fused(65, 1)));
  EXPECT_TRUE(one_shot::fits(fused(1, 1024)));
  EXPECT_FALSE(one_shot::fits(fused(1, 1025)));
  auto broadcast = [&plan](std::int64_t elements) {
    Plan result = plan(DataType::bfloat16, 0, elements);
    result.operation = Operation::broadcast;
    result.members = std::make_shared<const RankSet>(0, 2);
    result.root = 1;
    return result;
  };
  EXPECT_TRUE(one_shot::fits(broadcast(0)));
  EXPECT_TRUE(one_shot::fits(broadcast(2048)));  // travels as it is
  EXPECT_FALSE(one_shot::fits(broadcast(2049)));
  EXPECT_FALSE(one_shot::fits(broadcast(-1)));
  Plan of_another = broadcast(1);
  of_another.root = 2;
  EXPECT_FALSE(one_shot::fits(of_another));
  Plan gather = plan(DataType::float32, 0, 1);
  gather.operation = Operation::allgather;
  EXPECT_FALSE(one_shot::fits(gather));
}

}  // namespace
}  // namespace rueda
