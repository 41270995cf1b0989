// SPDX-License-Identifier: Apache-2.0
// SQuAD's normalization of answers, exact match, F1, and the choice of the best span or of none.
#include "examples/lib/data/metrics.h"

#include <fmt/format.h>
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace rueda::examples {
namespace {

bool is_ascii_punctuation(UChar32 character) {
  return (character >= 33 && character <= 47) || (character >= 58 && character <= 64) ||
         (character >= 91 && character <= 96) || (character >= 123 && character <= 126);
}

// The characters that the script's \b and split() take for a letter or digit, and for white space.
bool is_word_character(UChar32 character) {
  return u_isalpha(character) || u_getIntPropertyValue(character, UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}
bool is_space(UChar32 character) {
  return u_isUWhiteSpace(character) || (character >= 0x1C && character <= 0x1F);
}

bool is_article(const icu::UnicodeString& word) { return word == u"a" || word == u"an" || word == u"the"; }

// Lower case without ASCII punctuation, articles and needless white space; the words that are left. An
// article is a run of letters and digits; any other character, such as a dash beyond ASCII, ends it.
std::vector<icu::UnicodeString> answer_words(std::string_view text) {
  icu::UnicodeString lower =
      icu::UnicodeString::fromUTF8({text.data(), static_cast<std::int32_t>(text.size())});
  lower.toLower(icu::Locale::getRoot());
  icu::UnicodeString kept, run;
  const auto end_run = [&] {
    kept += is_article(run) ? icu::UnicodeString(u" ") : run;
    run.remove();
  };
  for (std::int32_t i = 0; i < lower.length(); i = lower.moveIndex32(i, 1)) {
    const UChar32 character = lower.char32At(i);
    if (is_ascii_punctuation(character)) continue;
    if (is_word_character(character)) {
      run += character;
      continue;
    }
    end_run();
    kept += is_space(character) ? UChar32{' '} : character;
  }
  end_run();

  std::vector<icu::UnicodeString> words;
  for (std::int32_t begin = 0; begin < kept.length();) {
    std::int32_t end = kept.indexOf(u' ', begin);
    if (end < 0) end = kept.length();
    if (end > begin) words.emplace_back(kept, begin, end - begin);
    begin = end + 1;
  }
  return words;
}

double f1_score(const std::vector<icu::UnicodeString>& prediction,
                const std::vector<icu::UnicodeString>& truth) {
  std::map<icu::UnicodeString, std::size_t> left;
  for (const auto& word : truth) ++left[word];
  std::size_t common = 0;
  for (const auto& word : prediction) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++common;
  }
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(prediction.size());
  const double recall = static_cast<double>(common) / static_cast<double>(truth.size());
  return (2 * precision * recall) / (precision + recall);
}

// NaN counts as the lowest value: a diverged model gives a poor answer, not a broken sort.
float comparable(float logit) { return logit == logit ? logit : -std::numeric_limits<float>::infinity(); }

// The context tokens with the `count` highest logits, highest first, equal ones in order.
std::vector<std::size_t> highest(std::span<const float> logits, std::size_t count) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      const float first = comparable(logits[a]), second = comparable(logits[b]);
                      return first != second ? first > second : a < b;
                    });
  order.resize(count);
  return order;
}

bool beats(const SpanChoice& span, const std::optional<SpanChoice>& other) {
  if (!other) return true;
  if (span.sum != other->sum) return span.sum > other->sum;
  return span.start != other->start ? span.start < other->start : span.end < other->end;
}

}  // namespace

Score score(std::string_view prediction, std::span<const std::string> truths) {
  if (truths.empty()) throw std::invalid_argument("score() needs at least one true answer");
  const auto predicted = answer_words(prediction);
  Score best;
  for (const std::string& truth : truths) {
    const auto words = answer_words(truth);
    best.exact = std::max(best.exact, predicted == words ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1_score(predicted, words));
  }
  return best;
}

Score score_with_null(std::string_view prediction, std::span<const std::string> truths) {
  std::vector<std::string> with_words;
  for (const std::string& truth : truths) {
    if (!answer_words(truth).empty()) with_words.push_back(truth);
  }
  if (!with_words.empty()) return score(prediction, with_words);
  const double right = answer_words(prediction).empty() ? 1 : 0;
  return {right, right};
}

Score mean_score(std::span<const Score> scores) {
  Score mean;
  if (scores.empty()) return mean;
  for (const Score& one : scores) {
    mean.exact += one.exact;
    mean.f1 += one.f1;
  }
  const auto count = static_cast<double>(scores.size());
  return {100 * mean.exact / count, 100 * mean.f1 / count};
}

SplitScore split_score(std::span<const Score> scores, const std::vector<bool>& answered) {
  std::vector<Score> with, without;
  for (std::size_t i = 0; i < scores.size(); ++i) (answered.at(i) ? with : without).push_back(scores[i]);
  return {mean_score(scores), mean_score(with), mean_score(without), with.size(), without.size()};
}

std::optional<SpanChoice> best_span_of(const WindowLogits& window, std::size_t n_best,
                                       std::int32_t max_answer_length) {
  const std::size_t length = window.feature->input_ids.size();
  if (window.start.size() < length || window.end.size() < length)
    throw std::invalid_argument(fmt::format("a window of {} tokens has {} start and {} end logits", length,
                                            window.start.size(), window.end.size()));
  const auto begin = static_cast<std::size_t>(window.feature->context_begin);
  const auto starts = window.start.subspan(begin, window.feature->offsets.size());
  const auto ends = window.end.subspan(begin, window.feature->offsets.size());
  const auto best_ends = highest(ends, n_best);
  std::optional<SpanChoice> best;
  for (const std::size_t start : highest(starts, n_best)) {
    for (const std::size_t end : best_ends) {
      if (end < start || end - start + 1 > static_cast<std::size_t>(std::max(max_answer_length, 0))) continue;
      const SpanChoice span{double{comparable(starts[start])} + double{comparable(ends[end])}, start, end};
      if (beats(span, best)) best = span;
    }
  }
  return best;
}

std::optional<AnswerSpan> best_span(std::span<const WindowLogits> windows, std::size_t n_best,
                                    std::int32_t max_answer_length) {
  std::optional<AnswerSpan> best;
  for (const WindowLogits& window : windows) {
    const auto span = best_span_of(window, n_best, max_answer_length);
    if (!span || (best && span->sum <= best->sum)) continue;  // equal: the earlier window
    const auto& offsets = window.feature->offsets;
    best = {offsets[span->start].first, offsets[span->end].second, span->sum};
  }
  return best;
}

AnswerSpan span_or_null(std::span<const WindowLogits> windows, double null_threshold) {
  const std::optional<AnswerSpan> best = best_span(windows);
  if (!best) return {};
  double null = std::numeric_limits<double>::infinity();
  for (const WindowLogits& window : windows)
    null = std::min(null, double{comparable(window.start.front())} + double{comparable(window.end.front())});
  return null - best->sum > null_threshold ? AnswerSpan{} : *best;
}

}  // namespace rueda::examples
