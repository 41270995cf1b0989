// SPDX-License-Identifier: Apache-2.0
// Exact match and F1 as SQuAD v1.1's evaluation script computes them, and the choice of the answer they are
// given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "examples/lib/data/features.h"

namespace rueda::examples {

// Both from 0 to 1 for one question.
struct Score {
  double exact = 0;
  double f1 = 0;
};

// The best over the truths. `truths` must not be empty (std::invalid_argument).
Score score(std::string_view prediction, std::span<const std::string> truths);

// The mean in the order given, times 100. Ranks that each scored a share gather the scores, put them in the
// order of the questions and take the mean of all: the same bits as one rank alone. {0, 0} for no scores.
Score mean_score(std::span<const Score> scores);

// What the model said about one window: one logit per position of feature->input_ids (more, for padding, are
// ignored).
struct WindowLogits {
  const Feature* feature;
  std::span<const float> start;
  std::span<const float> end;
};

// Context tokens of one window: `start` to `end`, both included.
struct SpanChoice {
  double sum = 0;  // of the two logits
  std::size_t start = 0;
  std::size_t end = 0;
};

// The best span of one window, chosen as below; nothing if none is left.
std::optional<SpanChoice> best_span_of(const WindowLogits& window, std::size_t n_best,
                                       std::int32_t max_answer_length);

// The text of the span with the highest start + end logit over all windows of one question. In each window
// the `n_best` highest starts and ends are paired; a span lies inside the context and has at most
// `max_answer_length` tokens. Equal sums: the earlier window, start, end. Empty if no span is left. Throws
// std::invalid_argument on too few logits.
std::string best_span(std::string_view context, std::span<const WindowLogits> windows,
                      std::size_t n_best = 20, std::int32_t max_answer_length = 30);

}  // namespace rueda::examples
