// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/answer_batch.h"

namespace rueda::examples {

TaskBatch answer_batch(const PaddedBatch& batch) {
  const BertInput input = to_input(batch);
  TaskBatch made{{{"input_ids", input.input_ids},
                  {"token_types", input.token_types},
                  {"valid", input.valid},
                  {"starts", int64_tensor(batch.starts)},
                  {"ends", int64_tensor(batch.ends)}}};
  if (!batch.answer_types.empty())
    made.tensors.emplace_back("answer_types", int64_tensor(batch.answer_types));
  return made;
}

BertInput answer_input(const TaskBatch& batch) {
  return {batch["input_ids"], batch["token_types"], batch["valid"]};
}

}  // namespace rueda::examples
