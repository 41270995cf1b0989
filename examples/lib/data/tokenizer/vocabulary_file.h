// SPDX-License-Identifier: Apache-2.0
// vocab.txt: one token a line, its number the token's id.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rueda::examples {

// More would be no vocabulary of a BERT, but fill the memory.
inline constexpr std::size_t kMostTokens = 10'000'000;
inline constexpr std::size_t kMostTokenizerBytes = std::size_t{64} << 20;  // of any file of a tokenizer

struct VocabularyFile {
  std::vector<std::optional<std::string>> tokens;  // by id; empty where a later line repeats the token
  std::string byte_order_mark;                     // for people, if the file begins with one
  std::vector<std::string> notes;                  // for people: other possible mistakes in the file
};

// The words of an error for which the file may be to blame: the byte order mark, the likely cause, comes
// first.
std::string words_of_error(const std::string& error, const std::string& byte_order_mark,
                           std::span<const std::string> notes);

// As transformers reads it: a token that stands on two lines has the later one's number, an empty line is a
// token that no text has, white space at the end of a line does not count. Throws std::runtime_error naming
// the file and the line: unreadable, not UTF-8, too large, a carriage return inside a line.
VocabularyFile read_vocabulary(const std::filesystem::path& vocab_txt);

// The lines of a vocab.txt that is read as this vocabulary. An id without a token, or with a token that no
// line can hold, has the last token's line, which comes later and so counts.
std::vector<std::string> vocabulary_lines(const std::vector<std::optional<std::string>>& tokens);

}  // namespace rueda::examples
