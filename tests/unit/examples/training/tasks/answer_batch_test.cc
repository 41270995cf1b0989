// SPDX-License-Identifier: Apache-2.0
// Windows with answers as tensors, and back as what a model reads.
#include "examples/lib/training/tasks/answer_batch.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rueda::examples {
namespace {

using testing::ElementsAre;

std::vector<std::string> names_of(const TaskBatch& batch) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : batch.tensors) names.push_back(name);
  return names;
}

TEST(AnswerBatch, HasTheWindowsAndTheirAnswers) {
  PaddedBatch padded{.rows = 2,
                     .columns = 3,
                     .input_ids = {5, 6, 7, 8, 9, 0},
                     .token_types = {0, 0, 1, 0, 1, 0},
                     .lengths = {3, 2},
                     .starts = {2, 1},
                     .ends = {2, 0}};
  EXPECT_THAT(names_of(answer_batch(padded)),
              ElementsAre("input_ids", "token_types", "valid", "starts", "ends"));
  padded.answer_types = {4, 0};
  const TaskBatch batch = answer_batch(padded);
  EXPECT_THAT(names_of(batch),
              ElementsAre("input_ids", "token_types", "valid", "starts", "ends", "answer_types"));
  EXPECT_TRUE(at::equal(batch["starts"], int64_tensor({2, 1})));
  EXPECT_TRUE(at::equal(batch["ends"], int64_tensor({2, 0})));
  EXPECT_TRUE(at::equal(batch["answer_types"], int64_tensor({4, 0})));

  const BertInput input = answer_input(batch);
  EXPECT_TRUE(at::equal(input.input_ids, int64_tensor({5, 6, 7, 8, 9, 0}).view({2, 3})));
  EXPECT_TRUE(at::equal(input.token_types, int64_tensor({0, 0, 1, 0, 1, 0}).view({2, 3})));
  EXPECT_TRUE(at::equal(input.valid, int64_tensor({1, 1, 1, 1, 1, 0}).view({2, 3}).to(at::kBool)));
}

}  // namespace
}  // namespace rueda::examples
