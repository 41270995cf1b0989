// SPDX-License-Identifier: Apache-2.0
// Exact match and F1 as SQuAD's evaluation scripts compute them, v1.1 and v2.0, and the choice of the answer
// they are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "examples/lib/data/features.h"

namespace rueda::examples {

// Both from 0 to 1 for one question.
struct Score {
  double exact = 0;
  double f1 = 0;
};

// v1.1: the best over the truths. `truths` must not be empty (std::invalid_argument).
Score score(std::string_view prediction, std::span<const std::string> truths);

// v2.0: truths that have no word count as none. If none is left, only a prediction without a word is right,
// with an F1 of 1.
Score score_with_null(std::string_view prediction, std::span<const std::string> truths);

// The mean in the order given, times 100. Ranks that each scored a share gather the scores, put them in the
// order of the questions and take the mean of all: the same bits as one rank alone. {0, 0} for no scores.
Score mean_score(std::span<const Score> scores);

// v2.0: of all questions, of those that have a true answer, and of those that have none.
struct SplitScore {
  Score all, has_answer, no_answer;  // means times 100
  std::size_t has_answer_total = 0;
  std::size_t no_answer_total = 0;
};

// `answered` says of each question whether it has a true answer.
SplitScore split_score(std::span<const Score> scores, const std::vector<bool>& answered);

// The output of the model for one window: one logit per position of feature->input_ids (more, for padding,
// are ignored).
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

// The position of an answer in its context: bytes `begin` to before `end`, which are equal if there is none.
struct AnswerSpan {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  double sum = 0;  // of the two logits

  std::string_view in(std::string_view context) const {
    return context.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }
};

// The span with the highest start + end logit over all windows of one question. In each window the `n_best`
// highest starts and ends are paired; a span lies inside the context and has at most `max_answer_length`
// tokens. Equal sums: the earlier window, start, end. Nothing if no span is left. Throws
// std::invalid_argument on too few logits.
std::optional<AnswerSpan> best_span(std::span<const WindowLogits> windows, std::size_t n_best = 20,
                                    std::int32_t max_answer_length = 30);

// That span, or no answer where the least start + end logit at [CLS] of any window is greater than the span's
// by more than `null_threshold`.
AnswerSpan span_or_null(std::span<const WindowLogits> windows, double null_threshold);

}  // namespace rueda::examples
