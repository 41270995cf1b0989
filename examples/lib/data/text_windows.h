// SPDX-License-Identifier: Apache-2.0
// From running text to the windows of word pieces that a language model reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "examples/lib/data/files/bad_items.h"
#include "examples/lib/data/item_cache.h"
#include "examples/lib/data/token_cache.h"
#include "examples/lib/data/tokenizer/word_piece.h"

namespace rueda::examples {

// [CLS] text [SEP], not padded.
struct TextWindow {
  std::vector<std::int32_t> input_ids;
};

using WindowSink = std::function<void(std::span<const std::int32_t>)>;

// Gives `sink` every window of the file, in order; the file may be larger than memory.
//
// Plain and WikiText (text_source.h): the text is cut into sentences (by ICU's rules, never across
// paragraphs), and a window takes whole sentences as long as all of them fit in `max_length` tokens; a
// sentence too long for any window is cut. Windows do not reach from one book or article into the next.
// Reviews: one window a line, cut at max_length.
//
// Returns the bad lines, which are left out (text_source.h). Throws std::runtime_error naming the file where
// it cannot be read, also if there is no text at all, and std::invalid_argument if max_length leaves no room
// beside [CLS] and [SEP].
BadItems read_text_windows(const std::filesystem::path& path, const WordPieceTokenizer& tokenizer,
                           std::int32_t max_length, const WindowSink& sink);

// The same, all kept. Throws where lines are bad.
std::vector<TextWindow> read_text_windows(const std::filesystem::path& path,
                                          const WordPieceTokenizer& tokenizer, std::int32_t max_length);

// The same from the node's cache, mapped into memory: the memory of a run does not grow with the text. Any
// thread.
class TextCorpus {
 public:
  // Throws std::runtime_error naming the bad lines where they are refused; also where no text is left.
  static TextCorpus open(const std::filesystem::path& path, const WordPieceTokenizer& tokenizer,
                         std::int32_t max_length, const TokenCache& cache,
                         OnBadItems on_bad = OnBadItems::refuse);

  std::size_t size() const { return windows_.size(); }
  const BadItems& bad() const { return windows_.bad(); }          // that were left out
  std::uint32_t checksum() const { return windows_.checksum(); }  // of all tokens
  // Window `index`, below size(); valid as long as this object.
  std::span<const std::int32_t> operator[](std::size_t index) const { return windows_[index]; }

 private:
  explicit TextCorpus(ItemCache windows) : windows_(std::move(windows)) {}

  ItemCache windows_;
};

// A share of 0 .. count - 1 in rising order: round(share * count) of them, at least one if there are any. The
// same for equal arguments on every machine. Throws std::invalid_argument unless 0 < share <= 1.
std::vector<std::size_t> subset(std::size_t count, double share, std::uint64_t seed);

}  // namespace rueda::examples
