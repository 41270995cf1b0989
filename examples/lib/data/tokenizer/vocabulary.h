// SPDX-License-Identifier: Apache-2.0
// Making a vocabulary of word pieces from text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "examples/lib/data/tokenizer/text_normalizer.h"

namespace rueda::examples {

// The frequency of each word. A word is a text that BERT's tokenizer splits into pieces. Used by one thread.
class WordCounts {
 public:
  explicit WordCounts(bool lower_case) : normalizer_{.lower_case = lower_case} {}

  // Special tokens written out in the text, such as the [UNK] of WikiText, are no words. A text that is too
  // long for the tokenizer is no word either.
  void add(std::string_view utf8);

  const std::map<std::u32string, std::uint64_t>& counts() const { return counts_; }

 private:
  NormalizerSettings normalizer_;
  std::map<std::u32string, std::uint64_t> counts_;  // in order, so that its results are the same every time
};

struct VocabularySettings {
  std::size_t size = 8000;      // tokens, the five special ones included
  std::uint64_t min_count = 2;  // how often two pieces must stand together to become one
  std::size_t alphabet =
      1000;  // the most frequent characters that get tokens; words with others become [UNK]
};

// The tokens in the order of their ids: [PAD] [UNK] [CLS] [SEP] [MASK], the characters in the order of
// Unicode, these again as continuations ("##e") if they occur behind another, then one after the other the
// pieces that come by joining the two neighbours that stand together most often, counted over all words. Of
// equal pairs the one with the lower id of its first, then second token comes first. So `size` tokens, or
// fewer if no pair occurs `min_count` times. This is how Hugging Face's WordPieceTrainer chooses. Time:
// proportional to the length of the words that each join changes. Throws std::invalid_argument if `size` has
// no room for the characters, or if there is no word.
std::vector<std::string> train_vocabulary(const WordCounts& words, const VocabularySettings& settings);

}  // namespace rueda::examples
