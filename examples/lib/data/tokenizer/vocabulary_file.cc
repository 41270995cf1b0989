// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/tokenizer/vocabulary_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "examples/lib/data/files/json_file.h"
#include "examples/lib/data/tokenizer/text_normalizer.h"

namespace rueda::examples {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string_view without_space_behind(std::string_view line) {
  for (auto end = static_cast<std::int32_t>(line.size()); end > 0;) {
    const std::int32_t whole = end;
    UChar32 character;
    U8_PREV(line.data(), 0, end, character);
    if (!is_white_space(static_cast<char32_t>(character)))
      return line.substr(0, static_cast<std::size_t>(whole));
  }
  return {};
}

bool fits_a_line(std::string_view token) {
  return token.find_first_of("\r\n") == token.npos && without_space_behind(token) == token;
}

}  // namespace

std::string words_of_error(const std::string& error, const std::string& byte_order_mark,
                           std::span<const std::string> notes) {
  std::vector<std::string> words{error};
  if (!byte_order_mark.empty()) words.insert(words.begin(), byte_order_mark);
  words.insert(words.end(), notes.begin(), notes.end());
  return fmt::format("{}", fmt::join(words, "; "));
}

VocabularyFile read_vocabulary(const std::filesystem::path& vocab_txt) {
  const std::string text = read_text(vocab_txt, kMostTokenizerBytes);
  const std::string file = vocab_txt.string();
  VocabularyFile read;
  if (text.starts_with(kByteOrderMark))
    read.byte_order_mark = fmt::format(
        "{}:1: a byte order mark stands before the first token and counts as a part of it, as in "
        "transformers; save the file without one",
        file);
  std::unordered_map<std::string, std::size_t> ids;
  bool trimmed = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    const std::size_t id = read.tokens.size();
    if (id == kMostTokens)
      throw std::runtime_error(
          fmt::format("{}: more than {} lines; is this a vocabulary?", file, kMostTokens));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find('\r') != line.npos)
      throw std::runtime_error(
          fmt::format("{}:{}: a carriage return inside the line, where transformers 4 ends it and "
                      "transformers 5 does not; save the file with line feeds",
                      file, id + 1));
    const std::string token(without_space_behind(line));
    if (token.size() < line.size() && !token.empty() && !trimmed) {
      trimmed = true;
      read.notes.push_back(
          fmt::format("{}:{}: white space behind the token does not count, as in transformers "
                      "5; transformers 4 takes it for a part of it",
                      file, id + 1));
    }
    const auto [entry, added] = ids.emplace(token, id);
    if (!added) read.tokens[std::exchange(entry->second, id)].reset();
    read.tokens.emplace_back(token);
  }
  return read;
}

std::vector<std::string> vocabulary_lines(const std::vector<std::optional<std::string>>& tokens) {
  std::size_t count = tokens.size();
  while (count > 0 && !(tokens[count - 1] && fits_a_line(*tokens[count - 1]))) --count;
  std::vector<std::string> lines;
  for (std::size_t id = 0; id < count; ++id) {
    const bool fits = tokens[id] && fits_a_line(*tokens[id]);
    lines.push_back(fits ? *tokens[id] : *tokens[count - 1]);
  }
  return lines;
}

}  // namespace rueda::examples
