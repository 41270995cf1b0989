// SPDX-License-Identifier: Apache-2.0
// A masked-LM model that is used as it is: a teacher, a student, one to be evaluated.
#pragma once

#include <memory>
#include <string>

#include "examples/lib/model/masked_lm.h"
#include "examples/lib/training/tasks/bert_start.h"

namespace rueda::examples {

struct ReadLm {
  std::shared_ptr<BertForMaskedLM> model;
  std::string words;  // for people: the kind of model
};

// The model of a start that has parameters; of one that has not, at random by the seed. Throws
// std::runtime_error naming the file: as load_parameters(), and for a model without a masked-LM head.
ReadLm read_lm(const BertStart& start, std::uint64_t seed, ParameterType type);

}  // namespace rueda::examples
