// SPDX-License-Identifier: Apache-2.0
// The running text of a file, whichever of three kinds it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "examples/lib/data/files/bad_items.h"

namespace rueda::examples {

enum class TextFormat : std::uint8_t {
  plain,     // paragraphs between empty lines
  wikitext,  // a paragraph a line, headings " = Name = ", <unk> for words that were left out
  reviews,   // text, a tab, a label on each line
};

const char* name_of(TextFormat format);

// Chosen by the name (.tsv) or the first lines. Throws std::runtime_error if it cannot be read.
TextFormat text_format(const std::filesystem::path& path);

struct TextSink {
  std::function<void(std::string_view)> paragraph;
  std::function<void()> document_ends;  // a book, an article; not after reviews
};

// Gives `sink` the paragraphs, in order, reading line by line: the file may be larger than memory. Of a
// Project Gutenberg file only the text between "*** START OF" and "*** END OF" is read. WikiText's headings
// are left out, and its <unk> becomes [UNK]. Reviews come without label; a first line with the label "label"
// names the columns. Returns the bad lines, which are left out: not valid UTF-8, or a review without a label.
// Throws std::runtime_error naming file and line if the file cannot be read any further.
BadItems read_paragraphs(const std::filesystem::path& path, TextFormat format, const TextSink& sink);

}  // namespace rueda::examples
