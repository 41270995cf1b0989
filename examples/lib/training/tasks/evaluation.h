// SPDX-License-Identifier: Apache-2.0
// Answers, exact match, F1 and loss of a model on questions, shared out over the ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/lib/data/features.h"
#include "examples/lib/data/metrics.h"
#include "examples/lib/data/squad.h"

namespace rueda::examples {

class BertForQuestionAnswering;

struct Evaluation {
  SplitScore score;                      // in percent
  double loss = 0;                       // mean over the windows
  std::vector<std::string> predictions;  // of each question; empty: no answer
};

// The same on every rank and for every number of ranks. Each rank answers its share and all gather the
// scores: a collective call after rueda::init(). If questions may lack answers, none is predicted when its
// score surpasses the best span's by more than `null_threshold`.
Evaluation evaluate(BertForQuestionAnswering& model, const SquadData& data, std::span<const Feature> windows,
                    double null_threshold);

}  // namespace rueda::examples
