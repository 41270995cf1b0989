// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/nq_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace rueda::examples {
namespace {

constexpr std::size_t kTypes = 5;

bool is_unknown(const NqTarget& target) { return target.answer_type() == AnswerType::unknown; }

// Of two ranges of words, both ends included.
double f1_of(const NqTokens& tokens, const NqPrediction& prediction, const NqTarget& target) {
  const auto first = tokens.word_of(prediction.begin), last = tokens.word_of(prediction.end - 1);
  const auto true_first = tokens.word_of(target.begin), true_last = tokens.word_of(target.end - 1);
  const double common = std::min(last, true_last) - std::max(first, true_first) + 1;
  return common <= 0 ? 0 : 2 * common / (last - first + 1 + true_last - true_first + 1);
}

}  // namespace

NqPrediction predict(std::span<const NqLogits> windows, std::size_t n_best) {
  NqPrediction best;
  bool found = false;
  for (const NqLogits& window : windows) {
    if (window.types.size() != kTypes)
      throw std::invalid_argument(
          fmt::format("{} logits of answer types, {} are needed", window.types.size(), kTypes));
    const auto span = best_span_of(window.answer, n_best, std::numeric_limits<std::int32_t>::max());
    if (!span) continue;
    const double score = span->sum - (double{window.answer.start[0]} + double{window.answer.end[0]});
    if (found && !(score > best.score)) continue;
    found = true;
    const auto type = std::ranges::max_element(window.types) - window.types.begin();
    best = {static_cast<AnswerType>(type), window.answer.feature->offsets[span->start].first,
            window.answer.feature->offsets[span->end].second, score};
  }
  if (best.type == AnswerType::unknown) best.begin = best.end = 0;
  return best;
}

NqScore score(const NqPrediction& prediction, const NqTokens& truth) {
  const auto given =
      truth.targets.size() - static_cast<std::size_t>(std::ranges::count_if(truth.targets, is_unknown));
  const bool says_unknown = prediction.type == AnswerType::unknown;
  if (given < std::clamp<std::size_t>(truth.targets.size(), 1, 2)) {
    const double right = says_unknown ? 1 : 0;
    return {right, right, right};
  }
  NqScore best;
  for (const NqTarget& target : truth.targets) {
    if (says_unknown || is_unknown(target)) continue;
    const double f1 = f1_of(truth, prediction, target);
    best.type = std::max(best.type, prediction.type == target.answer_type() ? 1.0 : 0.0);
    best.exact = std::max(best.exact, f1 == 1 ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1);
  }
  return best;
}

NqScore mean_score(std::span<const NqScore> scores) {
  NqScore mean;
  for (const NqScore& one : scores) {
    mean.type += one.type;
    mean.exact += one.exact;
    mean.f1 += one.f1;
  }
  const auto count = static_cast<double>(std::max<std::size_t>(scores.size(), 1));
  return {100 * mean.type / count, 100 * mean.exact / count, 100 * mean.f1 / count};
}

}  // namespace rueda::examples
