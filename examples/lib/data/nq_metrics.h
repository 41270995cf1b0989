// SPDX-License-Identifier: Apache-2.0
// The answer of a model to a question of Natural Questions, and how right it is.
#pragma once

#include <cstdint>
#include <span>

#include "examples/lib/data/metrics.h"
#include "examples/lib/data/nq_corpus.h"

namespace rueda::examples {

// The output of the model for one window: as for SQuAD, and a logit for each answer type.
struct NqLogits {
  WindowLogits answer;
  std::span<const float> types;
};

// begin .. end - 1 in the document's pieces; both 0 if the type is unknown.
struct NqPrediction {
  AnswerType type = AnswerType::unknown;
  std::int32_t begin = 0;
  std::int32_t end = 0;
  double score = 0;  // of the span over no span
};

// The prediction of one example: the window with the best span, by start + end logits over those of [CLS],
// which stand for "not here"; its highest answer type is the type. Equal ones: the earlier. Spans may be as
// long as a window, as long answers are. Throws std::invalid_argument on too few logits.
NqPrediction predict(std::span<const NqLogits> windows, std::size_t n_best = 20);

// Each from 0 to 1 for one question.
struct NqScore {
  double type = 0;
  double exact = 0;
  double f1 = 0;
};

// Against all annotations: of each of the three the best counts. As in Natural Questions' own evaluation a
// question has an answer if at least two annotations give one (one, if there is one annotation only); if it
// has, the empty ones do not count; if it has none, only "unknown" is right. Spans are compared as ranges of
// the document's words, and any span is wrong where the truth is unknown.
NqScore score(const NqPrediction& prediction, const NqTokens& truth);

// The mean in the order given, times 100: bring the scores of all ranks into the order of the examples first,
// and the result is the same for any number of ranks. Zeros for no scores.
NqScore mean_score(std::span<const NqScore> scores);

}  // namespace rueda::examples
