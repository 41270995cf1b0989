// SPDX-License-Identifier: Apache-2.0
// The windows of Natural Questions' documents, made when they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "examples/lib/data/batches.h"
#include "examples/lib/data/features.h"
#include "examples/lib/data/nq_corpus.h"

namespace rueda::examples {

struct NqSettings {
  std::int32_t max_length = 512;  // of a window: [CLS] question [SEP] context [SEP]
  std::int32_t stride = 128;      // pieces of context that consecutive windows share
  double unknown_share = 0.02;    // of the windows without answer, how many are trained on
  // Augmentation of training windows, drawn by (seed, position): the window is moved, so that its answer
  // stands anywhere in it (one without answer: by up to half a stride); and each word of the question becomes
  // [MASK] with this probability, but never all of them.
  bool move_windows = true;
  double question_dropout = 0.05;
  std::uint64_t seed = 1;
};

struct NqWindow {
  std::uint32_t example;
  std::int32_t begin;  // the first piece of the document in it
};

// `feature.question` is the example; its offsets count pieces of the document. A window has an answer if all
// of the target is in it; else start and end are 0, the position of [CLS], and the type is unknown.
struct NqFeature {
  Feature feature;
  AnswerType type;
};

// Purpose: says which windows of examples `first` .. `last` - 1 there are, and makes them. Keeps 8 bytes for
// each that is trained on. Refers to corpus and tokenizer, which must outlive it. Any thread.
class NqWindows {
 public:
  // Throws std::invalid_argument naming a setting that is out of range, or an example with a question that
  // leaves no more context than `stride`.
  NqWindows(const NqCorpus& corpus, const WordPieceTokenizer& tokenizer, const NqSettings& settings,
            std::size_t first, std::size_t last);

  // The training windows: every window with an answer, and a share of the others, chosen by (seed, example,
  // window).
  std::size_t size() const { return training_.size(); }
  // Window `index` as sample number `position` of the training reads it.
  NqFeature training_feature(std::size_t index, std::uint64_t position) const;

  // All windows once, for evaluation: lists of whole examples, in order, of at most `size` windows unless one
  // example has more (run these through the model `size` at a time). The lists do not depend on the number of
  // ranks.
  std::vector<std::vector<NqWindow>> evaluation_batches(std::size_t size) const;
  // A window as it stands in the document.
  NqFeature plain_feature(const NqWindow& window) const;

 private:
  std::int32_t room(const NqTokens& tokens) const;
  std::vector<std::int32_t> begins(const NqTokens& tokens) const;
  void check(const NqTokens& tokens) const;
  std::int32_t moved(const NqTokens& tokens, const NqWindow& window, std::uint64_t draw) const;
  void mask_question(const NqTokens& tokens, std::uint64_t draw, std::vector<std::int32_t>& input_ids) const;

  const NqCorpus& corpus_;
  const WordPieceTokenizer& tokenizer_;
  NqSettings settings_;
  std::size_t first_;
  std::size_t last_;
  std::vector<NqWindow> training_;
};

// Padded as any windows, with the answer types.
PaddedBatch pad(std::span<const NqFeature> features, std::int32_t pad_id);

}  // namespace rueda::examples
