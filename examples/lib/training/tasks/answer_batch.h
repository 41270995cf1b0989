// SPDX-License-Identifier: Apache-2.0
// Windows with answers as the tensors of a TaskBatch, of squad and of nq.
#pragma once

#include "examples/lib/data/batches.h"
#include "examples/lib/model/bert_model.h"
#include "examples/lib/training/task.h"

namespace rueda::examples {

// `input_ids`, `token_types`, `valid`, `starts`, `ends`, and `answer_types` where there are some. Copies the
// numbers.
TaskBatch answer_batch(const PaddedBatch& batch);

// Of a batch that answer_batch() made.
BertInput answer_input(const TaskBatch& batch);

}  // namespace rueda::examples
