// SPDX-License-Identifier: Apache-2.0
// Cutting contexts into windows and placing the answers in them.
#include "examples/lib/data/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>

namespace rueda::examples {
namespace {

using Token = WordPieceTokenizer::Token;

// The context tokens that touch the answer: first and last, last < first if there are none.
struct TokenRange {
  std::int32_t first = 0, last = -1;
};

TokenRange find_answer(std::span<const Token> context, const std::vector<Answer>& answers) {
  if (answers.empty()) return {};
  const std::int32_t begin = answers.front().begin;
  const auto end = begin + static_cast<std::int32_t>(answers.front().text.size());
  const auto first = std::partition_point(context.begin(), context.end(),
                                          [begin](const Token& token) { return token.end <= begin; });
  const auto past = std::partition_point(context.begin(), context.end(),
                                         [end](const Token& token) { return token.begin < end; });
  return {static_cast<std::int32_t>(first - context.begin()),
          static_cast<std::int32_t>(past - context.begin()) - 1};
}

// One window of the context behind the question.
Feature make_window(std::size_t question, std::span<const Token> question_tokens,
                    std::span<const Token> window, const WordPieceTokenizer& tokenizer) {
  Feature feature{question, {}, {}, 0, 0, 0, {}};
  std::vector<std::int32_t>& ids = feature.input_ids;
  ids.reserve(question_tokens.size() + window.size() + kTokensAroundPair);
  ids.push_back(tokenizer.cls_id());
  for (const Token& token : question_tokens) ids.push_back(token.id);
  ids.push_back(tokenizer.sep_id());
  feature.context_begin = static_cast<std::int32_t>(ids.size());
  for (const Token& token : window) {
    ids.push_back(token.id);
    feature.offsets.emplace_back(token.begin, token.end);
  }
  ids.push_back(tokenizer.sep_id());
  feature.token_types.assign(ids.size(), 1);
  std::fill_n(feature.token_types.begin(), feature.context_begin, 0);
  return feature;
}

void check_room(const Question& question, std::int32_t room, std::int32_t question_tokens,
                std::int32_t max_length, std::int32_t stride) {
  if (room > stride) return;
  throw std::invalid_argument(fmt::format(
      "--max-length {} leaves {} tokens of context beside the {} of question {} and {} special ones; "
      "more than the --stride of {} are needed: raise --max-length, or lower --stride",
      max_length, std::max(room, 0), question_tokens, question.id, kTokensAroundPair, stride));
}

}  // namespace

std::vector<Feature> make_features(const SquadData& data, const WordPieceTokenizer& tokenizer,
                                   std::int32_t max_length, std::int32_t stride,
                                   std::int32_t max_question_length) {
  if (stride < 0 || max_question_length < 1)
    throw std::invalid_argument(
        fmt::format("stride {} must not be negative and max_question_length {} must be positive", stride,
                    max_question_length));
  std::vector<std::vector<Token>> contexts;
  contexts.reserve(data.paragraphs.size());
  for (const Paragraph& paragraph : data.paragraphs)
    contexts.push_back(tokenizer.tokenize(paragraph.context));

  std::vector<Feature> features;
  for (std::size_t index = 0; index < data.questions.size(); ++index) {
    const Question& question = data.questions[index];
    std::vector<Token> question_tokens = tokenizer.tokenize(question.text);
    if (question_tokens.size() > static_cast<std::size_t>(max_question_length))
      question_tokens.resize(static_cast<std::size_t>(max_question_length));
    const auto question_length = static_cast<std::int32_t>(question_tokens.size());
    const std::int32_t room = max_length - question_length - kTokensAroundPair;
    check_room(question, room, question_length, max_length, stride);

    const std::span<const Token> context = contexts[question.paragraph];
    const auto length = static_cast<std::int32_t>(context.size());
    const TokenRange answer = find_answer(context, question.answers);
    for (std::int32_t first = 0;; first += room - stride) {
      const std::int32_t last = std::min(first + room, length);
      Feature feature = make_window(
          index, question_tokens,
          context.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)),
          tokenizer);
      if (answer.first <= answer.last && answer.first >= first && answer.last < last) {
        feature.start = feature.context_begin + answer.first - first;
        feature.end = feature.context_begin + answer.last - first;
      }
      features.push_back(std::move(feature));
      if (last == length) break;
    }
  }
  return features;
}

}  // namespace rueda::examples
