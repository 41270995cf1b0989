// SPDX-License-Identifier: Apache-2.0
// How well a model guesses masked tokens: loss, perplexity and pseudo-perplexity, shared out over the ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "examples/lib/data/tokenizer/word_piece.h"
#include "examples/lib/training/options/options.h"

namespace rueda::examples {

class BertForMaskedLM;

// A window of a text, and its number in the whole of it, by which its mask is drawn.
struct NumberedWindow {
  std::uint64_t number;
  std::span<const std::int32_t> ids;
};

struct LmEvaluationOptions {
  std::int64_t batch =
      16;  // rows in a forward pass: windows, or copies of one, each with another token hidden
  std::uint64_t seed = 1;  // of the masks
  bool pseudo = true;      // pseudo-perplexity too: a row for every token
  Autocast autocast = Autocast::none;
};

// Special tokens and unknown tokens ([UNK]) are never guessed.
struct LmEvaluation {
  double loss = 0;        // mean cross entropy over the masked tokens, 15 % of each window
  double perplexity = 1;  // e to the power of it
  std::int64_t masked_tokens = 0;
  // e to the power of the mean, over all tokens, of the cross entropy of a token when it alone is masked.
  std::optional<double> pseudo_perplexity;
  std::int64_t tokens = 0;
};

// Told by rank 0 after each part of its share: parts done, parts of all, mean loss of the part. Never from
// two threads at once.
using LmProgress = std::function<void(std::int64_t done, std::int64_t parts, double loss)>;

// The same bits on every rank and for any number of ranks and threads: a forward pass runs on one thread, and
// its result depends on the windows and the options only. Sums are taken in float64 in one order. The passes
// are dealt out to the ranks, and inside a rank that computes on the CPU to as many threads as torch has for
// one operation.
// Collective, after rueda::init(), with equal arguments.
LmEvaluation evaluate_lm(BertForMaskedLM& model, std::span<const NumberedWindow> windows,
                         const WordPieceTokenizer& tokenizer, const LmEvaluationOptions& options,
                         const LmProgress& progress = {});

}  // namespace rueda::examples
