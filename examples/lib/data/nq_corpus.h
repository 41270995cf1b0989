// SPDX-License-Identifier: Apache-2.0
// Natural Questions in word pieces, on the node's disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/lib/data/files/bad_items.h"
#include "examples/lib/data/item_cache.h"
#include "examples/lib/data/nq.h"
#include "examples/lib/data/token_cache.h"
#include "examples/lib/data/tokenizer/word_piece.h"

namespace rueda::examples {

// An annotation, its position counted in the document's pieces: begin .. end - 1. Type unknown: 0 and 0.
struct NqTarget {
  std::int32_t type;  // AnswerType
  std::int32_t begin;
  std::int32_t end;
  AnswerType answer_type() const { return static_cast<AnswerType>(type); }
};

// One example, tokenized: a view into its record.
struct NqTokens {
  std::string_view id;
  std::span<const std::int32_t> question;        // ids
  std::span<const std::int32_t> question_words;  // the word that each of them is of, from 0
  std::span<const std::int32_t> pieces;          // ids of the document without its HTML tags
  std::span<const std::int32_t> word_begin;      // the first piece of each word of the document, and the end
  std::span<const NqTarget> targets;             // one per annotation

  // The target of training: the first short answer, else yes or no, else long answer, else unknown.
  NqTarget training_target() const;
  // The word of the document that a piece is of.
  std::int32_t word_of(std::int32_t piece) const;
};

// The record of one example, as the cache holds it. Questions are cut at `max_question_length` pieces. An
// annotation becomes unknown if its span has tags only and no piece.
std::vector<std::int32_t> to_record(const NqExample& example, const WordPieceTokenizer& tokenizer,
                                    std::int32_t max_question_length);
NqTokens from_record(std::span<const std::int32_t> record);

// Purpose: all examples of a file, by number. The file (gzip or not) is read once, line by line. All cores
// tokenize it into the node's cache; from then on only used examples are in memory. Any thread.
class NqCorpus {
 public:
  // A line is bad where it is no UTF-8, no example, a span is outside of the document, or the example's id
  // occurs before. Throws std::runtime_error naming the file, and line and example of bad ones where they are
  // refused; also where no example is left.
  static NqCorpus open(const std::filesystem::path& path, const WordPieceTokenizer& tokenizer,
                       std::int32_t max_question_length, const TokenCache& cache,
                       OnBadItems on_bad = OnBadItems::refuse);

  std::size_t size() const { return items_.size(); }
  const BadItems& bad() const { return items_.bad(); }          // that were left out
  std::uint32_t checksum() const { return items_.checksum(); }  // of all tokens
  // Example `index`, below size(); valid as long as this object.
  NqTokens operator[](std::size_t index) const { return from_record(items_[index]); }

 private:
  explicit NqCorpus(ItemCache items) : items_(std::move(items)) {}

  ItemCache items_;
};

}  // namespace rueda::examples
