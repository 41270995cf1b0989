// SPDX-License-Identifier: Apache-2.0
// Exact match, F1 and loss of a model on questions, shared out over the ranks.
#pragma once

#include <cstdint>
#include <span>

#include "examples/lib/data/features.h"
#include "examples/lib/data/metrics.h"
#include "examples/lib/data/squad.h"

namespace rueda::examples {

class BertForQuestionAnswering;

struct Evaluation {
  Score score;      // mean over the questions, in percent
  double loss = 0;  // mean over the windows
};

// The same on every rank and for every number of ranks. Each rank answers its share and all gather the
// scores: a collective call after rueda::init().
Evaluation evaluate(BertForQuestionAnswering& model, const SquadData& data, std::span<const Feature> windows);

}  // namespace rueda::examples
