// SPDX-License-Identifier: Apache-2.0
// From running text to the windows of word pieces that a language model reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "examples/lib/data/word_piece.h"

namespace rueda::examples {

// [CLS] text [SEP], not padded.
struct TextWindow {
  std::vector<std::int32_t> input_ids;
};

enum class TextFormat : std::uint8_t {
  plain,     // paragraphs between empty lines
  wikitext,  // a paragraph a line, headings " = Name = ", <unk> for words that were left out
  reviews,   // text, a tab, a label on each line
};

const char* name_of(TextFormat format);

// By the name (.tsv) or by what the first lines look like.
TextFormat text_format(const std::filesystem::path& path);

using WindowSink = std::function<void(std::span<const std::int32_t>)>;

// Gives `sink` every window of the file, in order; reads line by line, so the file may be larger than memory.
//
// Plain and WikiText: the text is cut into sentences (by ICU's rules, never across paragraphs), and a window
// takes whole sentences as long as all of them fit in `max_length` tokens; a sentence too long for any window
// is cut. Windows do not reach from one book or article into the next. Of a Project Gutenberg file only what
// stands between "*** START OF" and "*** END OF" is read. WikiText's headings are left out, and its <unk>
// becomes [UNK]. Reviews: one window a line, cut at max_length, without the label; a first line whose label
// says "label" names the columns.
//
// Throws std::runtime_error naming file and line, also if there is no text at all, and std::invalid_argument
// if max_length leaves no room beside [CLS] and [SEP].
void read_text_windows(const std::filesystem::path& path, const WordPieceTokenizer& tokenizer,
                       std::int32_t max_length, const WindowSink& sink);

// The same, all kept.
std::vector<TextWindow> read_text_windows(const std::filesystem::path& path,
                                          const WordPieceTokenizer& tokenizer, std::int32_t max_length);

// A share of 0 .. count - 1 in rising order: round(share * count) of them, at least one if there are any. The
// same for equal arguments on every machine. Throws std::invalid_argument unless 0 < share <= 1.
std::vector<std::size_t> subset(std::size_t count, double share, std::uint64_t seed);

}  // namespace rueda::examples
