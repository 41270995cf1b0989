// SPDX-License-Identifier: Apache-2.0
// How right a model is on examples of Natural Questions, shared out over the ranks.
#pragma once

#include "examples/lib/data/nq_features.h"
#include "examples/lib/data/nq_metrics.h"

namespace rueda::examples {

class BertForNaturalQuestions;

struct NqEvaluation {
  NqScore score;    // means over the examples, in percent
  double loss = 0;  // mean over the windows, of the sum of the three
};

// All windows of the examples of `windows`. The same on every rank and for every number of ranks: a
// collective call after rueda::init().
NqEvaluation evaluate_nq(BertForNaturalQuestions& model, const NqCorpus& corpus, const NqWindows& windows);

}  // namespace rueda::examples
