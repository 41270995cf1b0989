// SPDX-License-Identifier: Apache-2.0
// The choice of training windows of a document, and the random draws for each.
#include "examples/lib/data/nq_features.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace rueda::examples {
namespace {

// The purposes of random draws, so that one draw does not follow another.
constexpr std::uint64_t kKeep = 0x6b656570;
constexpr std::uint64_t kAugment = 0x61756721;
constexpr std::uint64_t kMove = 1;
constexpr std::uint64_t kWord = 1000;

double fraction(std::uint64_t draw) { return static_cast<double>(draw >> 11) * 0x1p-53; }  // in [0, 1)

bool contains(std::int32_t begin, std::int32_t room, const NqTarget& target) {
  return target.answer_type() != AnswerType::unknown && target.begin >= begin && target.end <= begin + room;
}

}  // namespace

NqWindows::NqWindows(const NqCorpus& corpus, const WordPieceTokenizer& tokenizer, const NqSettings& settings,
                     std::size_t first, std::size_t last)
    : corpus_(corpus), tokenizer_(tokenizer), settings_(settings), first_(first), last_(last) {
  if (first > last || last > corpus.size() || last > std::numeric_limits<std::uint32_t>::max())
    throw std::invalid_argument(
        fmt::format("examples {} to {} of {} were asked for", first, last, corpus.size()));
  if (settings.stride < 0) throw std::invalid_argument(fmt::format("stride is {}, below 0", settings.stride));
  for (const double share : {settings.unknown_share, settings.question_dropout}) {
    if (!(share >= 0 && share <= 1))
      throw std::invalid_argument(fmt::format("unknown_share {} and question_dropout {} must be from 0 to 1",
                                              settings.unknown_share, settings.question_dropout));
  }
  const std::uint64_t seed = mix(settings.seed, kKeep);
  for (std::size_t example = first; example < last; ++example) {
    const NqTokens tokens = corpus[example];
    check(tokens);
    const NqTarget target = tokens.training_target();
    for (const std::int32_t begin : begins(tokens)) {
      const std::uint64_t draw = mix(mix(seed, example), static_cast<std::uint64_t>(begin));
      if (!contains(begin, room(tokens), target) && fraction(draw) >= settings.unknown_share) continue;
      training_.push_back({static_cast<std::uint32_t>(example), begin});
    }
  }
}

std::int32_t NqWindows::room(const NqTokens& tokens) const {
  return settings_.max_length - static_cast<std::int32_t>(tokens.question.size()) - kTokensAroundPair;
}

void NqWindows::check(const NqTokens& tokens) const {
  if (room(tokens) > settings_.stride) return;
  throw std::invalid_argument(
      fmt::format("--max-length {} leaves {} pieces of context beside the question of example {}; more than "
                  "the --stride of {} are "
                  "needed: raise --max-length, or lower --stride",
                  settings_.max_length, std::max(room(tokens), 0), tokens.id, settings_.stride));
}

// The first pieces of the windows of a document; at least one, also for an empty document. The last window
// ends with the document and is as long as the others. Moved windows have that length, too. A model that has
// never seen a shorter window predicts badly for one.
std::vector<std::int32_t> NqWindows::begins(const NqTokens& tokens) const {
  const auto pieces = static_cast<std::int32_t>(tokens.pieces.size());
  const std::int32_t step = room(tokens) - settings_.stride;
  std::vector<std::int32_t> found = {0};
  const std::int32_t last = pieces - room(tokens);
  while (found.back() < last) found.push_back(std::min(found.back() + step, last));
  return found;
}

std::int32_t NqWindows::moved(const NqTokens& tokens, const NqWindow& window, std::uint64_t draw) const {
  const std::int32_t size = room(tokens);
  const std::int32_t last = std::max(0, static_cast<std::int32_t>(tokens.pieces.size()) - size);
  const NqTarget target = tokens.training_target();
  const bool answered = contains(window.begin, size, target);
  const std::int32_t half = settings_.stride / 2;
  const std::int32_t low =
      answered ? std::max(0, target.end - size) : std::clamp(window.begin - half, 0, last);
  const std::int32_t high =
      answered ? std::min(last, target.begin) : std::clamp(window.begin + half, 0, last);
  const auto choices = static_cast<std::uint64_t>(std::max(high - low, 0)) + 1;
  return low + static_cast<std::int32_t>(mix(draw, kMove) % choices);
}

void NqWindows::mask_question(const NqTokens& tokens, std::uint64_t draw,
                              std::vector<std::int32_t>& input_ids) const {
  const auto masked = [&](std::int32_t word) {
    return fraction(mix(draw, kWord + static_cast<std::uint64_t>(word))) < settings_.question_dropout;
  };
  if (std::ranges::all_of(tokens.question_words, masked)) return;
  for (std::size_t i = 0; i < tokens.question.size(); ++i)
    if (masked(tokens.question_words[i])) input_ids[i + 1] = tokenizer_.mask_id();
}

NqFeature NqWindows::training_feature(std::size_t index, std::uint64_t position) const {
  NqWindow window = training_.at(index);
  const NqTokens tokens = corpus_[window.example];
  const std::uint64_t draw = mix(mix(settings_.seed, kAugment), position);
  if (settings_.move_windows) window.begin = moved(tokens, window, draw);
  NqFeature made = plain_feature(window);
  mask_question(tokens, draw, made.feature.input_ids);
  return made;
}

NqFeature NqWindows::plain_feature(const NqWindow& window) const {
  const NqTokens tokens = corpus_[window.example];
  const auto begin = static_cast<std::size_t>(window.begin);
  const auto context = tokens.pieces.subspan(
      begin, std::min(tokens.pieces.size() - begin, static_cast<std::size_t>(room(tokens))));
  NqFeature made{{window.example, {}, {}, 0, 0, 0, {}}, AnswerType::unknown};
  Feature& feature = made.feature;
  std::vector<std::int32_t>& ids = feature.input_ids;
  ids.reserve(tokens.question.size() + context.size() + kTokensAroundPair);
  ids.push_back(tokenizer_.cls_id());
  ids.insert(ids.end(), tokens.question.begin(), tokens.question.end());
  ids.push_back(tokenizer_.sep_id());
  feature.context_begin = static_cast<std::int32_t>(ids.size());
  ids.insert(ids.end(), context.begin(), context.end());
  ids.push_back(tokenizer_.sep_id());
  feature.token_types.assign(ids.size(), 1);
  std::fill_n(feature.token_types.begin(), feature.context_begin, 0);
  const auto end = window.begin + static_cast<std::int32_t>(context.size());
  for (std::int32_t piece = window.begin; piece < end; ++piece)
    feature.offsets.emplace_back(piece, piece + 1);

  const NqTarget target = tokens.training_target();
  if (contains(window.begin, room(tokens), target)) {
    made.type = target.answer_type();
    feature.start = feature.context_begin + target.begin - window.begin;
    feature.end = feature.context_begin + target.end - 1 - window.begin;
  }
  return made;
}

std::vector<std::vector<NqWindow>> NqWindows::evaluation_batches(std::size_t size) const {
  std::vector<std::vector<NqWindow>> batches;
  for (std::size_t example = first_; example < last_; ++example) {
    const auto found = begins(corpus_[example]);
    if (batches.empty() || batches.back().size() + found.size() > size) batches.emplace_back();
    for (const std::int32_t begin : found)
      batches.back().push_back({static_cast<std::uint32_t>(example), begin});
  }
  return batches;
}

PaddedBatch pad(std::span<const NqFeature> features, std::int32_t pad_id) {
  std::vector<const Feature*> rows;
  for (const NqFeature& made : features) rows.push_back(&made.feature);
  PaddedBatch batch = pad(rows, pad_id);
  for (const NqFeature& made : features) batch.answer_types.push_back(static_cast<std::int64_t>(made.type));
  return batch;
}

}  // namespace rueda::examples
